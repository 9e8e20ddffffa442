"""`pea plan`: what it says of a run is what `pea train` then takes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.instruments.processes import peak_memory
from extensions.data.datasets import Split, write_parts
from extensions.data.schema import to_toml
from tests.conftest import SHARED
from tests.helpers.commands import pea
from tests.helpers.players import SERVERS, free_addresses, running_players, write
from tests.helpers.tables import schema_of
from tests.tfe_ext.test_compat import needs_tensorflow

RECORDS = 300
"""Of each owner on players."""
NOISE = ("--noise-multiplier", 4, "--delta", 1e-5, "--lr", 0.01)
RUN = (*NOISE, "--sample-rate", 1)


def told(path: Path, *arguments: object) -> dict[str, Any]:
    """Returns what a command wrote to its report."""
    done = pea(*arguments, "--json", path)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_plan_says_what_is_public_of_a_run(tmp_path: Path):
    run = (*RUN, "--backend", "clear", "--model", "lenet", "--physical-rows", 64, "--steps", 7)
    found = told(tmp_path / "plan.json", "plan", "--records", "90,60,50", "--columns", 784, *run)
    assert found["rows"] == [92, 60, 52], "equally many in each of four pieces"
    assert (found["pieces"], found["parameters"]) == (4, 61_706)
    assert [layer["norms"] for layer in found["layers"]] == ["materialised"] * 2 + ["linear"] * 3
    assert found["layers"][0]["positions"] == 784
    assert found["step"] == {"rounds": 0, "bytes": 0, "memory": None}
    assert (found["run"]["rounds"], found["run"]["bytes"]) == (0, 0)
    assert found["run"]["seconds"] > 0
    assert 1.0 < found["sensitivity"] < 1.002


def test_a_plan_of_an_additive_model_says_what_noise_leaves(tmp_path: Path):
    schema = tmp_path / "schema.toml"
    schema.write_text(to_toml(schema_of()))
    private = ("--delta", 1e-5, "--open", "each-step", "--backend", "clear")
    plan = ("plan", "--records", 1000, "--schema", schema, *private)
    found = told(tmp_path / "plan.json", *plan, "--epsilon", 2)
    assert (found["model"], found["columns"], found["steps"]) == ("additive", 4, 30)
    assert found["cells"] == 187 + 188 + 5 + 3
    assert found["bins_told_from_noise"] > 8
    few = told(tmp_path / "few.json", *plan, "--epsilon", 0.02)
    assert few["model"] == "logistic"
    assert pea("plan", "--records", 1000, "--columns", 3, "--schema", schema).returncode == 1


@needs_tensorflow
@pytest.mark.long
@pytest.mark.xdist_group(SHARED["tfe_process"])
@pytest.mark.parametrize("options", [(), ("--physical-rows", 48)])
def test_a_player_of_aby3_takes_the_memory_that_its_plan_says(tmp_path: Path, options):
    """LeNet-5 on three players: what the largest takes more than it did for a linear model."""
    draws = np.random.default_rng(3)
    parts = []
    for _ in SERVERS:
        x, y = draws.uniform(0, 1 / 28, (RECORDS, 784)), np.arange(RECORDS) % 10
        parts.append(Split(train_x=x, train_y=y, test_x=x[:10], test_y=y[:10], classes=10))
    write_parts(parts, tmp_path / "records")
    file = write(tmp_path / "players.json", free_addresses(SERVERS))
    run = (*NOISE, "--sample-rate", 0.15, "--backend", "tfe", "--steps", 2)
    sizes = ",".join([str(RECORDS)] * 3)
    facts = ("--records", sizes, "--columns", 784, "--model", "lenet", *options)
    planned = told(tmp_path / "plan.json", "plan", *run, *facts)["step"]["memory"]
    with running_players(file, "--records", tmp_path / "records") as (_, processes):
        taken = []
        for model in (("--model", "logistic"), ("--model", "lenet", *options)):
            train = ("train", *run, "--players", file, "--evaluate", "none", *model)
            told(tmp_path / "run.json", *train)
            taken.append({name: peak_memory(process) for name, process in processes.items()})
    more = max(taken[1][name] - taken[0][name] for name in SERVERS)
    assert planned > 2e8
    assert 0.6 < more / planned < 1.4


@pytest.mark.long
@pytest.mark.parametrize(
    ("backend", "parties", "options"),
    [
        ("crypten", 2, ("--provider", "tfp", "--model", "mlp:8")),
        ("crypten", 3, ("--provider", "tfp", "--optimizer", "adam", "--physical-rows", 700)),
        *(
            pytest.param("tfe", 3, options, marks=pytest.mark.xdist_group(SHARED["tfe_process"]))
            for options in (("--momentum", 0.5), ("--model", "mlp:8", "--physical-rows", 300))
        ),
    ],
)
def test_a_step_takes_what_its_plan_says(tmp_path: Path, backend, parties, options):
    """Bytes on the wire are those of the plan, and headers, which the graphs of ABY3 have not."""
    run = (*RUN, "--backend", backend, "--parties", parties, *options)
    quiet = ("--data", "digits", "--evaluate", "none")
    reports = [
        told(tmp_path / f"{steps}.json", "train", *run, *quiet, "--steps", steps)
        for steps in (2, 3)
    ]
    sizes = ",".join(map(str, reports[0]["records"]))
    facts = ("--records", sizes, "--columns", 64, "--steps", 3)
    found = told(tmp_path / "plan.json", "plan", *run, *facts)
    rounds, carried = (
        reports[1][name] - reports[0][name] for name in ("rounds", "bytes_per_party")
    )
    step = found["step"]
    assert step["rounds"] == rounds
    headers = 0.003 * carried if backend == "crypten" else 0
    assert 0 <= carried - step["bytes"] <= headers
