"""Overflow probabilities of a ledger's steps add up, and stay probabilities."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.privacy.ledger import Ledger
from tests.helpers.refused import refused
from tests.helpers.strategies import PROPERTY

LARGEST = math.nextafter(1.0, 0.0)


def ledger_of(overflows: list[float]) -> Ledger:
    ledger = Ledger()
    for overflow in overflows:
        ledger.record(
            "training",
            noise_multiplier=1.0,
            sample_rate=0.1,
            steps=1,
            overflow_probability=overflow,
        )
    return ledger


@PROPERTY
@given(st.lists(st.floats(0.0, LARGEST), min_size=1, max_size=6))
def test_overflow_of_merged_steps_adds_up_to_less_than_one(overflows):
    ledger = ledger_of(overflows)
    (phase,) = ledger.phases
    assert phase.steps == len(overflows)
    assert phase.overflow_probability < 1.0
    assert phase.overflow_probability == pytest.approx(min(sum(overflows), LARGEST), rel=1e-12)
    assert Ledger.from_json(ledger.to_json()).phases == ledger.phases


@pytest.mark.parametrize("overflows", [[0.5, 0.5], [0.9, 0.9, 0.9], [1e-3] * 1001])
def test_steps_that_may_all_have_overflowed_have_no_epsilon(overflows):
    with refused("overflow_probability", "range", value=0.9999999999999999):
        ledger_of(overflows).get_epsilon(0.99, "rdp")
