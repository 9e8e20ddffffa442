"""A protocol keeps results while a graph is traced, and changes nothing by that."""

import pytest


@pytest.mark.parametrize(
    "task",
    [
        "every_method_that_the_host_remembers_is_named",
        "functions_are_traced_anew",
        pytest.param("nothing_grows", marks=pytest.mark.long),
        "protocols_are_told_apart",
        "operands_are_told_apart",
        "one_graph_computes_once",
        "variables_have_their_present_value",
        "draws_are_never_kept",
    ],
)
def test_property_of_kept_results(tfe_process, task):
    tfe_process.run(f"tests.helpers.tfe_tasks.memo:{task}")
