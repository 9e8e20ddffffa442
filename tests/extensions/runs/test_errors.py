"""Errors cross from process to process whole."""

import pickle

import pytest

from extensions import errors

RAISED = [
    errors.PeaError("all is lost"),
    errors.ArgumentError("lr", -1.0, "positive", "Raise it."),
    errors.MissingExtraError("torch", "fl"),
    errors.PartyLostError(2, "died"),
    errors.DealerLostError("is gone"),
    errors.RoundError(3, "too few.", {1: "late"}),
    errors.EmulationError("netem", "no such file", "Load it."),
]


@pytest.mark.parametrize("raised", RAISED, ids=lambda error: type(error).__name__)
def test_pickled_error_is_the_same(raised):
    found = pickle.loads(pickle.dumps(raised))
    assert type(found) is type(raised)
    assert str(found) == str(raised)
    assert found.args == raised.args
    assert vars(found) == vars(raised)


def test_error_about_an_argument_is_renamed_after_its_journey():
    found = pickle.loads(pickle.dumps(errors.ArgumentError("n", 0, "at least 1")))
    assert str(found.of("clients")) == "clients must be at least 1, not 0."
