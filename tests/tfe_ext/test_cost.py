"""`tfe_ext.cost` counts what is sent: the host's known costs, our budgets, loops and branches."""

import pytest


@pytest.mark.parametrize(
    "task",
    [
        pytest.param("known_costs_of_the_host", marks=pytest.mark.long),
        pytest.param("costs_of_ours", marks=pytest.mark.long),
        "what_is_counted_is_what_is_sent",
        "loops_count_as_often_as_they_turn",
        "shares_stay_where_they_are",
        "conditionals_count_as_their_dearer_branch",
        "others_are_counted_apart",
        "memory_is_what_is_waited_for",
        "unsuitable_functions_are_refused",
    ],
)
def test_property_of_cost(tfe_process, task):
    tfe_process.run(f"tests.helpers.tfe_tasks.cost:{task}")
