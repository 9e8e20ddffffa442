"""A script that chooses nothing trains as `pea train` does."""

import inspect
from typing import Any

import pytest

import crypten_ext
from extensions.errors import ArgumentError
from extensions.privacy.accounting import epsilon
from tests.conftest import Pools
from tests.helpers.chosen import DELTA, EPSILON, FLOOR, KINDS, accuracy, config_of, rows
from tests.helpers.documented import programs

OPTIMIZER = {
    **{"lr": "lr", "max_grad_norm": "max_grad_norm", "noise_multiplier": "noise_multiplier"},
    **{"sample_rate": "sample_rate", "colluders": "colluders", "momentum": "momentum"},
    **{"average": "average", "steps": "steps"},
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("parties", "colluders"), [(3, 1), (4, 2)])
def test_settings_are_those_of_the_command(kind: dict[str, Any], parties: int, colluders: int):
    public = {**kind, "epsilon": EPSILON, "delta": DELTA}
    found = crypten_ext.defaults(**public, columns=12, parties=parties, colluders=colluders)
    config = config_of(**public, parties=parties, colluders=colluders)
    for name, setting in OPTIMIZER.items():
        assert found.optimizer[name] == getattr(config, setting)
    assert found.optimizer.get("bias_scale", 0.0) == config.bias_scale
    assert found.layer == {
        "in_features": 12,
        "out_features": config.outputs,
        "bias": config.bias_scale > 0,
    }
    assert found.batches["classes"] == config.outputs
    assert found.batches["sample_rate"] == config.sample_rate
    assert found.steps == found.batches["steps"] == config.steps
    assert found.batches["overflow_probability"] == config.overflow_probability
    assert (found.whitening is None) == (not config.whiten)
    if found.whitening:
        assert found.whitening["noise_multiplier"] == config.noise_multiplier_whiten
    for arguments, function in (
        (found.layer, crypten_ext.nn.Linear),
        (found.optimizer, crypten_ext.optim.DPSGD),
        (found.batches, crypten_ext.poisson_batches),
        (found.whitening or {}, crypten_ext.whiten),
    ):
        assert {*arguments} <= {*inspect.signature(function).parameters}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("kind", "sounds"), ("records", 0), ("columns", 0), ("classes", 1), ("classes", 2.0)],
        *[("delta", 0.5), ("epsilon", -1.0), ("parties", 0), ("colluders", 3)],
    ],
)
def test_what_cannot_be_is_refused_by_name(name: str, value: Any):
    public = {"kind": "tables", "records": 455, "columns": 30, "classes": 2}
    with pytest.raises(ArgumentError) as caught:
        crypten_ext.defaults(**{**public, "epsilon": EPSILON, "delta": DELTA, name: value})
    assert caught.value.argument == name


@pytest.mark.parametrize(("rate", "steps"), [(0.1, 120), (1.0, 15)])
def test_noise_for_an_epsilon_is_that_of_steps_whose_batches_may_overflow(rate: float, steps: int):
    run = {"sample_rate": rate, "steps": steps, "delta": 1e-5}
    noise = crypten_ext.calibrate_noise(epsilon=EPSILON, **run)
    spent = [
        epsilon(noise_multiplier=factor * noise, overflow_probability=1e-9, **run)
        for factor in (1.0, 0.999)
    ]
    assert spent[0] <= EPSILON < spent[1]


def test_the_example_prints_what_it_chose(capsys):
    names: dict[str, Any] = {}
    exec(programs(crypten_ext.defaults)[0], names)
    chosen = names["chosen"]
    shown = f"{chosen.steps} {chosen.optimizer['lr']} {chosen.batches}\n"
    assert capsys.readouterr().out == shown


@pytest.mark.long
def test_the_example_learns_as_the_command_does(pools: Pools):
    x, y = rows("train")
    task = "tests.helpers.party_tasks.defaults:documented"
    everybody = pools.run(3, task, x=x.tolist(), y=y.tolist(), delta=DELTA)
    weight, matrix, spent = everybody[0]
    assert spent <= EPSILON
    assert all(found == everybody[0] for found in everybody)
    assert accuracy(weight, matrix) > FLOOR
