"""A session is compiled once: what is traced, how often, and how large it is."""

import pytest

TASKS = "tests.helpers.tfe_tasks.compiled"


@pytest.mark.parametrize(
    "task",
    [
        "the_first_call_traces_once",
        pytest.param("a_step_has_few_nodes", marks=pytest.mark.long),
        "epochs_trace_nothing_after_the_first",
        pytest.param("a_linear_step_has_few_nodes", marks=pytest.mark.long),
        pytest.param("twenty_epochs_trace_nothing_after_the_first", marks=pytest.mark.long),
        pytest.param("shared_records_trace_nothing_after_the_first", marks=pytest.mark.long),
        pytest.param("evaluation_takes_at_most_two_steps", marks=pytest.mark.long),
        pytest.param("memory_is_flat_over_ten_thousand_steps", marks=pytest.mark.long),
    ],
)
def test_property_of_what_is_traced(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")
