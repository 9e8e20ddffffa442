"""What a script does that whitens with ABY3's servers."""

from typing import Any

import numpy as np

import tfe_ext
from extensions.privacy.randomness import SystemSource
from extensions.protocols import pea
from extensions.protocols.noisy_sums.whitening import open_whitening
from tests.helpers.owned_rows import announced
from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.keras import model_of
from tests.helpers.tfe_tasks.session import PROTOCOL
from tfe_ext.graphs.batches import check_owners
from tfe_ext.keras import DPSGD
from tfe_ext.run.host import ABY3Host


def opened(rows: list[Any], sigma: float) -> tuple[list[Any], int]:
    """Returns a noisy Gram matrix of all servers' rows, and the rounds of the servers for it."""
    host = ABY3Host(PROTOCOL, SystemSource())
    records = announced([np.array(each, dtype=np.int64) for each in rows], [*map(len, rows)])
    found = open_whitening(
        host,
        pea.RunCallbacks(host),
        records,
        max_feature_norm=1.0,
        noise_multiplier=sigma,
        ridge=1.0,
    )
    return [part.tolist() for part in found.parts], host.traffic().rounds


def whitened(own: dict[str, Any], noise_multiplier: float) -> dict[str, Any]:
    """Returns what a script gets that whitens its owners' features, and trains on them."""
    optimizer = DPSGD(1.0, 1.0, 2.0, 0.5)
    tables = {owner: np.array(rows) for owner, rows in own.items()}
    with refused("x", "shape"):
        tfe_ext.whiten(
            tables | {"server0": np.zeros((1, 2))}, ledger=optimizer.ledger, noise_multiplier=1.0
        )
    with refused("features", "data", "row 1"):
        tfe_ext.whiten(
            {owner: 9 * rows for owner, rows in tables.items()},
            ledger=optimizer.ledger,
            noise_multiplier=1.0,
        )
    assert not optimizer.ledger.phases
    earlier = optimizer.state_dict()
    whitening = tfe_ext.whiten(
        tables, ledger=optimizer.ledger, noise_multiplier=noise_multiplier, ridge=2.0
    )
    optimizer.load_state_dict(earlier)  # as a script does that goes on; what was opened stays
    rows = {owner: whitening.rows(own) for owner, own in tables.items()}
    norms = np.concatenate([np.linalg.norm(own, axis=1) for own in rows.values()])
    assert optimizer.get_epsilon(1e-5) > 0
    check_owners(
        rows,
        {owner: [0] * len(own) for owner, own in rows.items()},
        model_of([7, 2]).chain.network,
        frac_bits=20,
        max_feature_norm=1.0,
    )
    return {
        "parts": [part.tolist() for part in whitening.parts],
        "ridge": whitening.ridge,
        "norms": norms.tolist(),
        "ledger": optimizer.ledger.to_json(),
    }
