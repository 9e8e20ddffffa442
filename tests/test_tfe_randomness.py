"""Draws of TF Encrypted's players are uniform, the same at both holders, and never repeat."""

import pytest

TASKS = "tests.tfe_tasks_randomness"


@pytest.mark.parametrize(
    "task",
    [
        "rfc_vectors",
        "stays_on_its_device",
        "holders_agree",
        "other_devices_are_refused",
        "unsuitable_draws_are_refused",
        "nothing_repeats",
        "pruned_holder_stays_in_step",
        "threads_share_a_stream",
        "rekeyed_graphs_draw_from_the_new_key",
        "streams_have_keys_of_their_own",
    ],
)
def test_property_of_streams(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")


def test_every_type_is_uniform(tfe_process):
    # 17 two-sided tests at 1e-8 a side: a false alarm in 3.4e-7 of runs.
    assert tfe_process.run(f"{TASKS}:uniform", alarm=1e-8) == 17
