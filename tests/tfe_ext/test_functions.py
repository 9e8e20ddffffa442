"""The functions that our ABY3 adds: promises kept in graphs, fresh masks and noise, errors."""

import pytest

TASKS = "tests.helpers.tfe_tasks.functions"
LONG = pytest.mark.long
"""A graph is traced for each precision; the grid of both runs without graphs elsewhere."""
presets = pytest.mark.parametrize("frac_bits", [16, pytest.param(20, marks=LONG)])


@presets
def test_inverse_sqrt(tfe_process, frac_bits):
    tfe_process.run(f"{TASKS}:inverse_sqrt_keeps_its_promise", frac_bits=frac_bits)


@presets
def test_clip_factor(tfe_process, frac_bits):
    tfe_process.run(f"{TASKS}:clip_factor_keeps_its_promise", frac_bits=frac_bits)


@pytest.mark.parametrize(("frac_bits", "max_norm"), [(16, 1.0), pytest.param(20, 7.7, marks=LONG)])
def test_clip_by_norm(tfe_process, frac_bits, max_norm):
    tfe_process.run(
        f"{TASKS}:clip_by_norm_keeps_its_promise", frac_bits=frac_bits, max_norm=max_norm
    )


@pytest.mark.long
def test_clip_by_norm_of_one_vector(tfe_process):
    tfe_process.run(f"{TASKS}:clip_by_norm_takes_one_vector", frac_bits=16, max_norm=1.0)


@pytest.mark.parametrize(
    ("frac_bits", "sigma", "colluders"),
    [(16, 0.8, 1), (16, 0.0007, 1), pytest.param(20, 60.0, 2, marks=LONG)],
)
def test_noise(tfe_process, frac_bits, sigma, colluders):
    arguments = {"frac_bits": frac_bits, "sigma": sigma, "colluders": colluders}
    tfe_process.run(f"{TASKS}:noise_has_the_stated_variance", **arguments)


@pytest.mark.parametrize(
    "task",
    [
        "results_serve_the_host",
        pytest.param("variables_and_loops", marks=pytest.mark.long),
        "graphs_are_small",
        "names_leave_with_the_protocol",
        "servers_may_share_a_device",
        "unsuitable_tensors_are_refused",
        "unsuitable_arguments_are_refused",
        "noise_is_fresh_in_every_run",
        "what_is_sent_is_uniform",
    ],
)
def test_property_of_functions(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 128, 4096])
def test_inverse_sqrt_is_faster_than_the_hosts(tfe_process, size):
    tfe_process.run(f"{TASKS}:is_faster_than_the_hosts", size=size)
