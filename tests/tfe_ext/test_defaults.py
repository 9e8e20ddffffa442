"""A program of Keras that chooses nothing trains as `pea train` does."""

import pytest

from tests.helpers.chosen import EPSILON, FLOOR

TASKS = "tests.helpers.tfe_tasks.defaults"


@pytest.mark.parametrize(
    "task",
    [
        "settings_are_those_of_the_command",
        "what_cannot_be_is_refused_by_name",
        pytest.param("noise_for_an_epsilon_is_enough", marks=pytest.mark.long),
    ],
)
def test_what_is_chosen(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")


@pytest.mark.long
def test_the_example_learns_as_the_command_does(tfe_process):
    right, spent = tfe_process.run(f"{TASKS}:documented")
    assert spent <= EPSILON
    assert right > FLOOR
