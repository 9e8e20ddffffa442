"""Training on ABY3 as users of Keras write it; nothing is opened that they do not name."""

import pytest

TASKS = "tests.helpers.tfe_tasks.fitting"


@pytest.mark.parametrize(
    "task",
    [
        "datasets_give_what_arrays_give",
        "wrong_datasets_are_refused",
        "callbacks_are_told_what_epochs_cost",
        pytest.param("padding_takes_what_is_said", marks=pytest.mark.long),
        "schedules_go_on_and_rates_are_assigned",
        "schedules_are_checked_before_they_begin",
        "counts_are_charged_as_what_they_are",
        "counts_are_charged_to_a_training_that_comes_after_them",
        "a_training_that_ends_early_is_charged_as_planned",
        "a_run_that_goes_on_has_charged_all_that_was_opened",
        pytest.param("what_else_is_opened_is_kept_before", marks=pytest.mark.long),
        "unfit_callbacks_are_refused",
        "configurations_make_the_model_again",
    ],
)
def test_property_of_fitting(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")
