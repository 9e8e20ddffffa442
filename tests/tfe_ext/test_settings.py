"""What is set after a step takes effect at the next one, or is refused: every attribute."""

import pytest

TASKS = "tests.helpers.tfe_tasks.settings"
NAMES = (
    "learning_rate",
    "noise_multiplier",
    "expected_batch_size",
    "sample_rate",
    "overflow_probability",
    "l2_norm_clip",
    "colluders",
    "degree",
)


@pytest.mark.parametrize(
    "task",
    [
        "every_setting_has_its_row",
        pytest.param("settings_hold_within_a_fit", marks=pytest.mark.long),
        "without_a_source_the_system_is_asked",
        pytest.param("another_source_is_asked", marks=pytest.mark.long),
        pytest.param("bounds_hold_or_are_refused", marks=pytest.mark.long),
        "what_steps_do_not_notice_cannot_be_set",
        "a_changed_loss_is_refused",
        "a_protocol_stays_as_it_is",
    ],
)
def test_property_of_settings(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_setting_takes_effect(tfe_process, name):
    tfe_process.run(f"{TASKS}:a_setting_takes_effect", name=name)
