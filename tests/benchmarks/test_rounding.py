"""By the coins of parties the clear ring rounds as they did."""

from io import BytesIO

import numpy as np
import pytest

from extensions.ring.clear import ClearRing
from tests.conftest import Pools
from tests.helpers.trajectories import Again

SHIFTS = (16, 0, 3, 40)


def test_coins_of_parties_round_alike_in_the_clear(pools: Pools):
    z = np.random.default_rng(4).integers(-(2**61), 2**61, (50, 3))
    task = "tests.helpers.party_tasks.rounding:truncated"
    (found, coins), (others, same) = pools.run(2, task, z=z, shifts=SHIFTS)
    assert coins == same
    again = Again(BytesIO(coins))
    ring = ClearRing(16, seed=again)
    for shift, own, theirs in zip(SHIFTS, found, others, strict=True):
        (expected,) = ring.truncate([(z, shift)])
        np.testing.assert_array_equal(own, expected)
        np.testing.assert_array_equal(theirs, expected)
    assert 0 < (found[0] - (z >> 16)).sum() < z.size
    with pytest.raises(EOFError):
        again.integers(0, 2, z.shape)


def test_coins_of_another_number_of_values_are_refused():
    file = BytesIO()
    np.save(file, np.zeros(3, np.uint8))
    file.seek(0)
    with pytest.raises(ValueError, match="reshape"):
        Again(file).integers(0, 8, (4,))
