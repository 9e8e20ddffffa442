"""The drift of hidden weights adds up over all steps, pulls as they are and noise in squares."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.errors import GradientError
from extensions.protocols.dpsgd_plan import INITIAL_WEIGHT_SHARE
from extensions.protocols.drift import Drift
from tests.helpers.strategies import MODELS, PROPERTY, plan_of

PLANS = [
    plan_of(MODELS["hidden"], learning_rate=rate, noise_multiplier=noise)
    for rate, noise in ((0.5, 0.0), (0.1, 2.0), (2.0, 0.3))
]
"""Without noise, with noise that outweighs the pull, and with both."""

counts = st.lists(st.tuples(st.sampled_from(PLANS), st.integers(1, 50)), min_size=1, max_size=4)


@PROPERTY
@given(counts, st.booleans())
def test_steps_are_made_up_to_the_bound_and_no_further(steps, restored):
    pull = sum(count * plan.largest_pull for plan, count in steps)
    energy = sum(count * plan.largest_noise**2 for plan, count in steps)
    moved = pull + math.sqrt(energy)
    for room, fits in ((1.001, True), (0.999, False)):
        drift = Drift(room * moved / (1 - INITIAL_WEIGHT_SHARE))
        *before, (last, count) = steps
        for plan, made in before:
            drift.add(plan, made)
        if restored:
            state = drift.state()
            drift = Drift(room * moved / (1 - INITIAL_WEIGHT_SHARE))
            drift.restore(state)
        if fits:
            drift.add(last, count)
        else:
            with pytest.raises(GradientError, match=f"{count} more might move the weights"):
                drift.add(last, count)
