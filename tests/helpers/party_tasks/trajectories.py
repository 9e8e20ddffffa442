"""What the parties of test_trajectory.py do."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from crypten_ext.processes.worker import Context
from crypten_ext.run.host import CrypTenHost
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import check_records
from extensions.protocols.pea import public_start
from extensions.runs.config import TrainConfig
from tests.helpers.party_tasks.protocols import session
from tests.helpers.trajectories import trajectory


def models(
    context: Context, *, config: dict[str, Any], parts: Sequence[tuple[Any, Any]], seed: int
) -> list[list[np.ndarray]]:
    """Returns the model after each step of a run of which each party has a part of the records."""
    settings = TrainConfig(**config)
    x, y = parts[context.rank]
    own = check_records(
        x,
        y,
        frac_bits=settings.frac_bits,
        classes=settings.classes,
        max_feature_norm=settings.max_feature_norm,
    )
    with session():
        host = CrypTenHost(settings.frac_bits, InsecureSeededSource(seed))
        return trajectory(host, settings, [own], public_start(settings, x.shape[1]))
