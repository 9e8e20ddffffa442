"""An optimizer that the packages have never heard of trains everywhere, by one class in `RULES`."""

import json
from typing import Any

import numpy as np
import pytest

from extensions.errors import ArgumentError
from extensions.privacy.randomness import InsecureSeededSource
from extensions.runs.clear_host import ClearHost
from tests.conftest import Pools
from tests.helpers import signs
from tests.helpers.commands import pea
from tests.helpers.signs import CLASSES, FEATURES, LR, NAME, STEPS, F, config_of
from tests.helpers.tfe_process import TFEProcess

SEED = 5


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with signs.registered():
        yield


def in_the_clear(parties: int) -> list[Any]:
    source = InsecureSeededSource(SEED)
    host = ClearHost(F, parties=parties, owners=parties, source=source)
    return signs.run(host, config_of(parties))


def check_steps(models: list[Any], rates: list[float]) -> None:
    """Weights move by half a rate in each of two directions, the first time in one."""
    moved = np.diff([np.concatenate([np.ravel(p) for p in model]) for model in models], axis=0)
    directions, before = [], 0
    for each, rate in zip(-moved, rates, strict=True):
        directions.append(np.round(each / (rate / 2)) - before)
        before = directions[-1]
    np.testing.assert_allclose(np.abs(directions), 1)
    assert len(np.unique(directions)) == 2


def check_equal(found: list[Any], parties: int) -> None:
    expected = in_the_clear(parties)
    assert len(found) == len(expected) == STEPS
    for mine, clear in zip(found, expected, strict=True):
        for part, other in zip(mine, clear, strict=True):
            np.testing.assert_array_equal(part, other)


def test_in_the_clear_weights_move_by_half_a_rate_in_each_direction():
    start = [np.zeros((CLASSES, FEATURES)), np.zeros(CLASSES)]
    models = [start, *([part / 2.0**F for part in each] for each in in_the_clear(3))]
    check_steps(models, [LR * (1 - t / STEPS) for t in range(STEPS)])


def test_a_run_on_crypten_is_that_in_the_clear(pools: Pools):
    task = "tests.helpers.signs:run_on_crypten"
    for found in pools.run(2, task, seed=SEED):
        check_equal(found, 2)


def test_a_run_on_aby3_is_that_in_the_clear(tfe_process: TFEProcess):
    check_equal(tfe_process.run("tests.helpers.signs:run_on_aby3", seed=SEED), 3)


def test_a_script_of_crypten_makes_such_steps(pools: Pools):
    draws = np.random.default_rng(7)
    weight = draws.integers(-64, 65, (CLASSES, FEATURES)) / 2**10
    own = [dict(zip("xy", signs.rows(rank), strict=True)) for rank in range(2)]
    options = {"lr": LR, "max_grad_norm": 1.0, "noise_multiplier": 2.0, "sample_rate": 0.6}
    found, _ = pools.run(
        2,
        "tests.helpers.signs:script",
        per_party=own,
        parameters=[(weight, np.zeros(CLASSES))],
        classes=CLASSES,
        steps=STEPS,
        seed=SEED,
        **options,
    )
    check_steps(found, [LR] * STEPS)


def test_a_model_of_keras_makes_such_steps(tfe_process: TFEProcess):
    check_steps(tfe_process.run("tests.helpers.signs:keras"), [LR] * STEPS)


def test_the_command_takes_it(tmp_path):
    run = ("--epsilon", 2, "--delta", "1e-5", "--backend", "clear", "--optimizer", NAME)
    done = pea("train", *run, "--steps", 3, "--momentum", 0, "--json", tmp_path / "report.json")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["manifest"]["run"]["optimizer"] == NAME
    with pytest.raises(ArgumentError) as error:
        config_of(3, momentum=0.5)
    assert error.value.argument == "momentum"
