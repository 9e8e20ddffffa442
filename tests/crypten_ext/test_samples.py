"""A step's rows travel while the step before waits, where the host was told of both."""

import numpy as np
import pytest

TASK = "tests.helpers.party_tasks.samples:steps"
RECORDS, INPUTS, CLASSES, PARTIES = 4, 6, 2, 3
ROWS = 8 * RECORDS * INPUTS * (PARTIES - 1)
"""Bytes of a party's rows, to all others."""
OPENED = 8 * INPUTS * CLASSES * (PARTIES - 1)


def check_products(found):
    """Each step's product is that of all records, whoever has them."""
    expected = np.sort(np.concatenate([own["own"] for own in found]))
    for own in found:
        for product in own["sums"]:
            np.testing.assert_array_equal(product, expected)


def test_each_step_but_the_last_sends_the_rows_of_the_next_one(dealer_pool):
    """The last one asks for masks all the same: a dealer that works ahead knows all steps."""
    found = dealer_pool.run(TASK, records=RECORDS, foreseen=3, made=3, seed=None)
    check_products(found)
    for own in found:
        assert own["sent"] == [OPENED + 2 * ROWS, OPENED + ROWS, OPENED]
        before, *each = own["asked"]
        layer = ["layer", [[RECORDS] * PARTIES, INPUTS, CLASSES]]
        assert [[kind, list(map(list_of, parameters))] for kind, parameters in before] == [layer]
        assert each == [before] * 3


def list_of(parameter):
    return list(parameter) if isinstance(parameter, tuple) else parameter


@pytest.mark.parametrize(("foreseen", "seed"), [(0, None), (3, 5)])
def test_what_is_not_foreseen_or_could_not_be_drawn_again_goes_with_its_own_step(
    dealer_pool, foreseen, seed
):
    """A run with fixed randomness that goes on is to draw what it would have drawn."""
    found = dealer_pool.run(TASK, records=RECORDS, foreseen=foreseen, made=3, seed=seed)
    check_products(found)
    for own in found:
        assert own["sent"] == [OPENED + ROWS] * 3
        before, *each = own["asked"]
        assert before == []
        assert [len(step) for step in each] == [1] * 3


def test_steps_beyond_those_that_were_foreseen_are_made_too(dealer_pool):
    found = dealer_pool.run(TASK, records=RECORDS, foreseen=2, made=4, seed=None)
    check_products(found)
    for own in found:
        assert own["sent"] == [OPENED + 2 * ROWS, OPENED] + [OPENED + ROWS] * 2
