"""Batches of a run in the clear overflow, all owners' and steps' together, within their bound."""

import numpy as np
import pytest
from scipy.special import bdtrc

from extensions.layers.spec import ModelSpec
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OVERFLOW_PROBABILITY, check_records, draw_rows
from extensions.protocols import host
from extensions.ring.fixed_point import encode
from extensions.runs import local_training
from extensions.runs.config import TrainConfig


@pytest.mark.parametrize(("owners", "steps"), [(1, 20), (40, 1), (30, 3)])
def test_overflow_is_shared_out_over_owners_and_steps(monkeypatch, owners, steps):
    """Capacities are whole numbers: a row more lowers an overflow ten times, less than owners."""
    overflows = []

    def noting(records, *, party, sample_rate, rows, source):
        overflows.append(bdtrc(rows, len(records), sample_rate))
        return draw_rows(records, party=party, sample_rate=sample_rate, rows=rows, source=source)

    monkeypatch.setattr(host, "draw_rows", noting)
    config = TrainConfig(
        backend="clear",
        parties=owners,
        classes=2,
        steps=steps,
        sample_rate=0.2,
        noise_multiplier=1.0,
        delta=1e-5,
    )
    own = check_records(
        np.full((100, 3), 0.5), np.zeros(100), frac_bits=20, classes=2, max_feature_norm=1.0
    )
    spec = ModelSpec.parse(config.model, 3, 2)
    start = [(encode(w, 20), encode(b, 20)) for w, b in spec.initial_parameters()]
    local_training.descend(config, [own] * owners, start, InsecureSeededSource(1))
    assert len(overflows) == owners * steps
    assert OVERFLOW_PROBABILITY / 100 < sum(overflows) <= OVERFLOW_PROBABILITY
