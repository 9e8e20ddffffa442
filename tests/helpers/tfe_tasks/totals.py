"""What a program does that adds up what is said of all owners' records, block by block."""

from typing import Any
from unittest.mock import patch

import numpy as np

from extensions.layers.passes import Parameters
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.host import Batch, SumOf, share_public
from tests.helpers.tfe_tasks.keras import model_of, owned, records
from tests.helpers.tfe_tasks.session import OWNER, PROTOCOL, counted_graphs
from tfe_ext.run.host import ABY3Host

SIZES = (7, 0, 5)


def total(blocks: int) -> dict[str, Any]:
    """Returns the sum of features over all records, and how often the function was traced."""
    host, traced = ABY3Host(PROTOCOL, SystemSource()), []
    draws = np.random.default_rng(3)
    own = [
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
    summed = SumOf(size=2, count=count, finish=lambda _, found: [found + found])
    words = host.total(model, own, SIZES, blocks, summed)
    (opened,) = host.open(words)
    whole = np.concatenate([each.features for each in own]).sum(axis=0)
    return {"rows": traced, "found": opened.tolist(), "expected": (2 * whole).tolist()}


def evaluated() -> None:
    """A model is right as often in blocks as at once, twice with others' records in their place."""
    own = [dict(zip("xy", records(size, seed=size), strict=True)) for size in (20, 13, 9)]
    x, y = owned(own)
    whole, parted = model_of([4, 6, 2]), model_of([4, 6, 2])
    parted.set_weights(whole.get_weights())
    other = {name: -values for name, values in x.items()}
    expected = [whole.evaluate(each, y) for each in (x, other)]
    with patch("extensions.protocols.records.COMPARED", 60), counted_graphs() as traced:
        found = [parted.evaluate(each, y) for each in (x, other)]
    assert traced() == 3, "a block, what is left over, and the end"
    assert found == expected
    assert len({*found}) == 2
    fewer = [{"server2": each["server0"], OWNER: each["server1"]} for each in (x, y)]
    with patch("extensions.protocols.records.COMPARED", 60):
        found = [parted.evaluate(*fewer)]
    assert found == [whole.evaluate(*fewer)]
