"""A session is compiled once: what is traced, how often, and how large it is."""

import pytest

TASKS = "tests.helpers.tfe_tasks.compiled"


@pytest.mark.parametrize("task", ["the_first_call_traces_once"])
def test_property_of_what_is_traced(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")
