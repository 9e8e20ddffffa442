"""What a user of an ABY3 session is told, and by whom."""

import pytest


@pytest.mark.parametrize(
    "task",
    [
        "values_without_an_encoding_are_refused_by_column",
        "a_graph_refuses_them_when_it_runs_and_shares_nothing",
        "the_largest_values_are_shared",
        "autograph_has_nothing_to_say_of_ours",
    ],
)
def test_property_of_messages(tfe_process, task):
    tfe_process.run(f"tests.helpers.tfe_tasks.messages:{task}")
