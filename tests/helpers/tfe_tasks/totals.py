"""What a program does that adds up what is said of all servers' records, block by block."""

from typing import Any
from unittest.mock import patch

import numpy as np

from extensions.network.passes import Parameters
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols import announcement
from extensions.protocols.announcement import announce
from extensions.protocols.host import Batch, share_public
from tests.helpers.tfe_tasks.session import PROTOCOL
from tfe_ext.run.host import ABY3Host

SIZES = (7, 0, 5)


def total(at_once: int) -> dict[str, Any]:
    """Returns the sum of features over all records, and how often the function was traced."""
    host, traced = ABY3Host(PROTOCOL, SystemSource()), []
    draws = np.random.default_rng(3)
    records = [
        OwnRecords(
            features=draws.integers(-(2**19), 2**19, (size, 2)),
            labels=np.zeros((size, 1), dtype=np.int64),
            frac_bits=20,
        )
        for size in SIZES
    ]

    def count(model: Parameters, batch: Batch) -> Any:
        traced.append(batch.x.shape[0])
        return batch.x.sum(0)

    model = share_public(host, [np.zeros((1, 2), dtype=np.int64), np.zeros(1, dtype=np.int64)])
    known = announce(host.exchange, records, {})
    with patch.object(announcement, "COMPARED", at_once):
        words = host.total(model, known, 1, count, lambda found: found + found)
    (opened,) = host.open(words)
    whole = np.concatenate([own.features for own in records]).sum(axis=0)
    return {"rows": traced, "found": opened.tolist(), "expected": (2 * whole).tolist()}
