"""Truncations and products by bits of two parties' own shares: every corner, and how they round."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from extensions.two_party.pairwise.online import times_flags, truncated
from extensions.two_party.pairwise.rounds import together
from tests.helpers.pairwise import Views, combined
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM

LARGEST = 2**62 - 1
CORNERS = [0, 1, -1, 2**61, -(2**61), LARGEST, -LARGEST, 0x1555555555555555]


def shared(values, seed):
    """Returns shares (2, values) of each value, one of them 0, all ones, or drawn."""
    draws = np.random.default_rng([31, seed])
    wide = np.repeat(np.array(values, dtype=np.int64), 4)
    first = draws.integers(-(2**63), 2**63 - 1, wide.size, endpoint=True)
    first[0::4], first[1::4], first[2::4] = 0, -1, wide[2::4]
    return wide, np.stack([first, wide - first])


@pytest.mark.parametrize("shift", [1, 7, 8, 9, 16, 31, 32, 55, 61, 62])
def test_a_value_is_rounded_to_one_of_the_two_nearest(two, shift):
    draws = np.random.default_rng(shift)
    values = [*CORNERS, *draws.integers(-LARGEST, LARGEST, 500)]
    values += [value >> shift << shift for value in values if value >> shift << shift > -(2**62)]
    z, shares = shared(values, shift)
    found = combined(two.run(lambda p: truncated(p, shares[p.rank], shift)), "sum")
    up = found - (z >> shift)
    assert set(up) <= {0, 1}
    assert not up[z & ((1 << shift) - 1) == 0].any()


@pytest.mark.parametrize(("first", "low"), [(0, 3), (2**63 - 1, 40), (-5, 250)])
def test_its_expected_value_is_exact_whatever_the_shares_are(two, first, low):
    """The same shares again and again, as those of a value that one party has alone."""
    count, shift = 1 << 14, 8
    z = (77 << shift) + low
    shares = np.array([first, (z - first + 2**63) % 2**64 - 2**63], dtype=np.int64)
    found = two.run(lambda p: truncated(p, np.full(count, shares[p.rank]), shift))
    ups = int((combined(found, "sum") - 77).sum())
    assert stats.binomtest(ups, count, low / (1 << shift)).pvalue > ALARM


def test_products_by_all_ways_to_share_a_bit(two):
    words = [*CORNERS, 2**63 - 1, -(2**63)]
    each = np.array(list(product(words, words, (0, 1), (0, 1, -7, 2**63 - 1))), dtype=object)
    flags = np.array([each[:, 3], each[:, 2] - each[:, 3]]).astype(np.int64)
    x = each[:, :2].T.astype(np.int64)
    found = two.run(lambda p: times_flags(p, x[p.rank], flags[p.rank]))
    np.testing.assert_array_equal(combined(found, "sum"), x.sum(0) * each[:, 2].astype(np.int64))


def test_shapes_are_kept_and_calls_share_their_rounds(two):
    x = np.arange(24, dtype=np.int64).reshape(2, 3, 4) << 8

    def both(peers):
        own = x * peers.is_first
        kept = truncated(peers, own, 0)
        return together(
            [truncated(peers, own, 8), times_flags(peers, own, own & 0), kept, none(peers)]
        )

    def none(peers):
        return truncated(peers, np.empty((0, 5), dtype=np.int64), 3)

    shares = list(zip(*two.run(both), strict=True))
    assert np.array_equal(combined(shares[0], "sum"), x >> 8)
    assert np.array_equal(combined(shares[1], "sum"), np.zeros_like(x))
    assert np.array_equal(combined(shares[2], "sum"), x)
    assert combined(shares[3], "sum").shape == (0, 5)


@pytest.mark.parametrize(("shift", "sent"), [(1, 1), (8, 1), (16, 2), (17, 3), (62, 8)])
def test_budgets_of_bytes(two, shift, sent):
    x, views = np.zeros(640, dtype=np.int64), Views(2)
    two.run(lambda p: truncated(p, x, shift), views)
    assert [len(m) for _, m in views.messages[0] + views.messages[1] if m] == [640 * 4, 640 * sent]
    views = Views(2)
    two.run(lambda p: times_flags(p, x, x), views)
    assert views.bytes_to(0, 1) == views.bytes_to(1, 0) == 640 * 12


def test_what_they_do_not_take_is_refused(two, three):
    x = np.zeros(4, dtype=np.int64)
    for make in (lambda p: truncated(p, x, 5), lambda p: times_flags(p, x, x)):
        with refused("parties", "value", value=3):
            three.run(make)
    for shift in (-1, 63):
        with refused("shift", "range", shift):
            two.run(lambda p, shift=shift: truncated(p, x, shift))
