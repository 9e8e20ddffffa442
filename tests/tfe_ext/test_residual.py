"""Residual connections on ABY3: what they compute, a step, and which are refused."""

import pytest

TASKS = "tests.helpers.tfe_tasks.residual"


@pytest.mark.parametrize(
    "task",
    [
        "it_adds_what_came_to_what_a_branch_makes_of_it",
        "called_by_itself_it_is_the_sum_too",
        "what_does_not_fit_is_refused",
        "a_step_is_that_of_the_clear_ring",
    ],
)
def test_property_of_residual_connections(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")
