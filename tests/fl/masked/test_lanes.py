"""Values side by side in one element of the ring add up exactly, up to the bounds of a lane."""

import numpy as np
import pytest

import fl
from fl.masked.lanes import pack, unpack, words
from fl.protocols import Round
from fl.simulation import DropOut
from tests.helpers.federated.masked_rounds import Small, check_exact, run, updates
from tests.helpers.refused import refused


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("lanes", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("size", [1, 6, 7, 20])
def test_sums_up_to_the_bounds_of_a_lane_are_exact(dtype, lanes, size):
    """Of two clients, each half of the largest or the smallest sum."""
    bits = 8 * np.dtype(dtype).itemsize
    most = 2 ** (bits // lanes - 1) - 1
    draws = np.random.default_rng(size)
    totals = draws.choice([most, -most, -most - 1, most - 1, 0, 1, -1], size=size).astype(np.int64)
    first = totals // 2
    parts = [part.astype(f"i{bits // 8}").view(dtype) for part in (first, totals - first)]
    packed = [pack(part, lanes) for part in parts]
    assert all(one.shape == (words(size, lanes),) and one.dtype == dtype for one in packed)
    found = unpack(packed[0] + packed[1], size, lanes)
    np.testing.assert_array_equal(found.view(f"i{bits // 8}"), totals)


def test_lanes_that_do_not_hold_the_sum_are_refused():
    """8 clients of weights 1..8 in a range of 4 with 10 bits behind the point: 2^17.2 + 8."""
    fixed = fl.FixedPoint(bits=64, frac_bits=10, clip=4.0)
    weights = range(1, 9)
    fl.MaskedAggregator(fixed_point=fixed, lanes=3).check_weights(weights)
    fl.MaskedAggregator(fixed_point=fixed, lanes=3).check_weights([127, 128])
    with refused("lanes", "range", value=3):
        fl.MaskedAggregator(fixed_point=fixed, lanes=3).check_weights([128, 128])
    with refused("lanes", "range", value=4):
        fl.MaskedAggregator(fixed_point=fixed, lanes=4).check_weights(weights)
    for lanes in (0, -1, 33):
        with refused("lanes", "range", lanes):
            fl.MaskedAggregator(fixed_point=fixed, lanes=lanes)


@pytest.mark.parametrize("graph", [None, Small(corrupt=0.0)])
@pytest.mark.parametrize(("lanes", "size"), [(2, 9), (3, 10), (3, 2)])
def test_packed_rounds_are_exact_and_send_fewer_bytes(graph, lanes, size):
    fixed = fl.FixedPoint(bits=64, frac_bits=10, clip=4.0)
    made = [
        fl.MaskedAggregator(threshold=0.5, fixed_point=fixed, graph=graph, lanes=each)
        for each in (1, lanes)
    ]
    given, lost = updates(8, size), [DropOut(3, "masked")]
    sent = []
    for aggregator in made:
        outcome, _ = run(aggregator, given, drop_outs=lost)
        check_exact(aggregator, given, outcome, [c for c in given if c != 3])
        (values,) = {e.size for e in outcome.transcript if e.message.kind == "masked"} or {0}
        sent.append(values)
    assert sent[0] - sent[1] == 8 * (size - words(size, lanes))


def test_lanes_are_in_what_clients_sign():
    fixed = fl.FixedPoint(bits=64, frac_bits=10, clip=4.0)
    round = Round(number=1, size=5, weights={0: 1, 1: 1, 2: 1})
    contexts = {
        fl.MaskedAggregator(fixed_point=fixed, lanes=lanes)._terms(round).context
        for lanes in (1, 2, 3)
    }
    assert len(contexts) == 3
