"""A million truncations at 2^50: none of ours is wrong, and dozens of the host's own are."""

import pytest
from scipy import stats

from tests.conformance.arenas.arena import CrypTenArena
from tests.helpers.strategies import ALARM

COUNTS = [1_000_000, pytest.param(10_000_000, marks=pytest.mark.long)]
SIZE = {"bits": 50, "shift": 16, "seed": 7, "chunk": 500_000}


@pytest.mark.parametrize("count", COUNTS)
def test_none_of_ours_is_wrong(crypten_arena: CrypTenArena, count: int):
    for answer in crypten_arena.run("count_wrong_truncations", ours=True, count=count, **SIZE):
        assert answer["wrong"] == 0
        assert answer["largest"] == 1


@pytest.mark.parametrize("count", COUNTS)
def test_the_hosts_own_fails_as_often_as_its_shares_wrap(crypten_arena: CrypTenArena, count: int):
    # With uniform shares it fails with probability |z| / 2^64 a value, independently: a sum of so
    # many rare events is Poisson but for the sum of their squares, here below 1e-7.
    for answer in crypten_arena.run("count_wrong_truncations", ours=False, count=count, **SIZE):
        law = stats.poisson(answer["sum_of_magnitudes"] / 2**64)
        assert law.mean() == pytest.approx(0.75 * count * 2.0**-14, rel=1e-3)
        assert 2 * min(law.cdf(answer["wrong"]), law.sf(answer["wrong"] - 1)) > ALARM
        assert law.cdf(0) < 1e-15
        assert answer["wrong"] > 0
        assert answer["largest"] > 2**47
