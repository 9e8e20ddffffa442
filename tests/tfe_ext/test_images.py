"""Models of images on ABY3: what they compute, a step, and which layers are refused."""

import pytest

TASKS = "tests.helpers.tfe_tasks.images"


@pytest.mark.parametrize(
    "task",
    [
        "a_model_of_images_is_that_of_keras",
        "images_that_do_not_fit_are_refused",
        pytest.param("a_step_on_images_is_that_of_the_clear_ring", marks=pytest.mark.long),
        pytest.param("a_step_of_the_last_layer_is_that_of_the_clear_ring", marks=pytest.mark.long),
    ],
)
def test_property_of_models_of_images(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")
