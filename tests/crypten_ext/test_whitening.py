"""A script's whitening between CrypTen's parties: the sum over all of them, in one round."""

import sys

import numpy as np
import pytest

from extensions.protocols.sums.gram import gram, pack, unit_rows
from tests.helpers.owned_rows import owned_rows
from tests.helpers.wire import on_wire

TASK = "tests.helpers.party_tasks.whitening:opened"
COLUMNS = 60


def test_every_party_gets_the_sum_over_all_rows_in_one_opening(pools):
    """Each party sends its words to each other, in a message of one record of TLS."""
    rows = owned_rows(COLUMNS)
    parties = pools.run(3, TASK, rows=rows, sigma=0.0)
    whole = unit_rows(np.array([row for own in rows for row in own]), 2.0**20)
    expected = [part.tolist() for part in pack(gram(whole))]
    words = 8 * COLUMNS * (COLUMNS + 1) // 2
    for found, traffic in parties:
        assert found == expected
        assert traffic.rounds == 1
        if sys.platform == "linux":
            (carried,) = traffic.carried
            assert carried.sent == 2 * on_wire(words)
            assert carried.dealt == 0


@pytest.mark.parametrize("parties", [2, 3])
def test_all_parties_open_the_same_noise(pools, parties):
    rows = owned_rows(4)[:parties]
    found = [party for party, _ in pools.run(parties, TASK, rows=rows, sigma=3.0)]
    assert found == found[:1] * parties
    whole = unit_rows(np.array([row for own in rows for row in own]), 2.0**20)
    assert found[0] != [part.tolist() for part in pack(gram(whole))]
