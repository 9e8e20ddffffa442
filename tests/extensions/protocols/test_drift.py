"""The drift of hidden weights adds up over all steps, pulls as they are and noise in squares."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.errors import GradientError
from extensions.protocols.dpsgd_plan import INITIAL_WEIGHT_SHARE
from extensions.protocols.drift import Drift, check_start, within_initial_bound
from extensions.protocols.updates import SGDRule
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import encode
from tests.helpers.refused import refused
from tests.helpers.strategies import MODELS, PROPERTY, ROUNDINGS, plan_of

RULES = [
    SGDRule(plan_of(MODELS["hidden"], learning_rate=rate, noise_multiplier=noise))
    for rate, noise in ((0.5, 0.0), (0.1, 2.0), (2.0, 0.3))
]
"""Without noise, with noise that outweighs the pull, and with both."""

counts = st.lists(st.tuples(st.sampled_from(RULES), st.integers(1, 50)), min_size=1, max_size=4)


@PROPERTY
@given(counts, st.booleans())
def test_steps_are_made_up_to_the_bound_and_no_further(steps, restored):
    pull = sum(count * rule.largest_pull for rule, count in steps)
    energy = sum(count * rule.largest_noise**2 for rule, count in steps)
    moved = pull + math.sqrt(energy)
    for room, fits in ((1.001, True), (0.999, False)):
        drift = Drift(room * moved / (1 - INITIAL_WEIGHT_SHARE))
        *before, (last, count) = steps
        for rule, made in before:
            drift.check(rule, made)
            drift.count(rule, made)
        if restored:
            state = drift.state()
            drift = Drift(room * moved / (1 - INITIAL_WEIGHT_SHARE))
            drift.restore(state)
        if fits:
            drift.check(last, count)
        else:
            with pytest.raises(GradientError, match=f"{count} more might move the weights"):
                drift.check(last, count)


def test_one_step_counts_once_and_a_lower_bound_is_refused_from_then_on():
    drift = Drift(400.0)
    assert drift.within(40.0) == Drift(40.0)
    drift.count(RULES[0])
    assert drift.state() == [1, RULES[0].largest_pull, RULES[0].largest_noise ** 2]
    assert drift.within(800.0).state() == drift.within(400.0).state() == drift.state()
    with refused("max_weight_norm", "range", 399.0):
        drift.within(399.0)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("frac_bits", [8, 12, 16, 20, 24])
@pytest.mark.parametrize("count", [1, 7, 4000])
def test_layers_start_within_their_part_of_the_bound(rounding, frac_bits, count):
    """Also beyond 2896, where squares of 20 fractional bits would no longer fit 64 bits."""
    ring, bound = ClearRing(frac_bits=frac_bits, rounding=rounding), 400.0
    part, slack = INITIAL_WEIGHT_SHARE * bound, 2.0**-9 * math.sqrt(2 * count)
    even, signs = np.full(count, count**-0.5), np.resize([1.0, -1.0], count)
    fits, beyond = part * (1 - 2.0**-8), part * (1 + 2.0**-7) + slack
    pairs = [(fits, 0.0), (0.0, fits), (0.6 * fits, 0.8 * fits)]
    pairs += [(beyond, 0.0), (0.0, beyond), (0.8 * beyond, 0.6 * beyond)]
    large = [181.1, 2897.0, 1e5, *2.0 ** np.arange(19, 62 - frac_bits)]
    pairs += [(norm, 1.0) for norm in large] + [(1.0, norm) for norm in large]
    layers = [[encode(norm * even * signs, frac_bits) for norm in pair] for pair in pairs]
    found = within_initial_bound(ring, [*layers, layers[0][:1], layers[3][:1]], bound)
    assert [flag == 1 for flag in found] == [True] * 3 + [False] * (len(pairs) - 3) + [True, False]


@pytest.mark.parametrize("bits", range(30, 64))
def test_integers_of_any_size_are_told_from_a_start(bits):
    """Alone, and many of them, whose squares add up to multiples of 2^64."""
    ring = ClearRing(frac_bits=16, rounding="floor")
    for count in (1, 4, 1 << 12):
        values = np.full(count, -(1 << 63) if bits == 63 else 1 << bits, dtype=np.int64)
        layers = [[values], [values, values], [values[:1], np.zeros(count, dtype=np.int64)]]
        found = within_initial_bound(ring, layers, 400.0)
        assert not any(flag == 1 for flag in found)


def test_layers_beyond_their_part_are_named():
    check_start({"0": 1}, 400.0)
    with refused("model", "range", "with 1, 2 of a larger norm"):
        check_start({"0": 1, "1": 0, "2": -2}, 400.0)
