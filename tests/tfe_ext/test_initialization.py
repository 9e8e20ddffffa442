"""Models of TF Encrypted's layers start from what owners trained locally, and nothing is opened."""

import pytest


@pytest.mark.parametrize(
    "task",
    [
        "the_best_local_model_is_taken",
        pytest.param("the_average_and_the_start_compete_with_local_models", marks=pytest.mark.long),
        "an_average_is_weighted_as_asked",
        pytest.param(
            "candidates_are_tried_with_the_activations_that_the_model_has", marks=pytest.mark.long
        ),
        pytest.param("a_start_after_steps_is_checked_as_one_before_them", marks=pytest.mark.long),
        pytest.param("a_public_start_is_the_one_that_is_named", marks=pytest.mark.long),
        "what_does_not_fit_is_refused",
    ],
)
def test_property_of_a_local_start(tfe_process, task):
    tfe_process.run(f"tests.helpers.tfe_tasks.initialization:{task}")
