"""`pea pencil`: what it refuses before anybody meets, and whole trainings in processes."""

import errno
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crypten_ext.pencil import local
from crypten_ext.pencil.local import meeting_of
from crypten_ext.pencil.model import accuracy, read_model, write_model
from crypten_ext.pencil.terms import Terms
from extensions.data.datasets import write_private
from extensions.errors import PartyLostError
from extensions.printing import CUT_SHORT
from extensions.runs.budget import Cap, path_of, read, update
from extensions.transport import Federation, Identity, Member, make
from tests.helpers.commands import assert_all_end, call, started
from tests.helpers.patience import wait_until
from tests.helpers.refused import refused

TERMS = Terms(model="mlp:3", features=4, classes=2)


def member(identity: Identity, port: int) -> Member:
    return Member(
        name=identity.name,
        role="party",
        fingerprint=identity.fingerprint,
        address=f"127.0.0.1:{port}",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Holds keys of both owners, their federation, and the data owner's file."""
    folder: Path = tmp_path_factory.mktemp("pencil")
    own = [make(name, folder / f"{name}.pem", 1) for name in ("model", "data")]
    members = [member(one, 7000 + i) for i, one in enumerate(own)]
    Federation(members).write(folder / "pair.toml")
    Federation(members[::-1]).write(folder / "turned.toml")
    (folder / "empty").mkdir()
    x, y = np.ones((8, 4)) / 2, np.arange(8) % 2
    records = {"train_x": x, "train_y": y, "test_x": x, "test_y": y}
    write_private(folder / "records.npz", **records)
    write_private(folder / "persons.npz", **records, train_units=np.arange(8) // 2)
    write_private(folder / "spare.npz", **records)
    (folder / "spare.npz.budget.json").write_text('{"format": 1, "budget": {}, "ledger": {}}')
    write_private(folder / "capped.npz", **records)
    cap = Cap(epsilon=0.25, delta=1e-4)
    update(path_of(folder / "capped.npz"), lambda before: replace(before, cap=cap))
    write_model(folder / "start.npz", TERMS, list(TERMS.spec.initial_parameters()))
    return folder


OWNER = {"key": "model.pem", "federation": "pair.toml", "out": "m.npz", "model": "mlp:3"}
OWNER |= {"features": "4", "classes": "2"}
DATA = {"key": "data.pem", "federation": "pair.toml", "records": "records.npz"}
DATA |= {"epsilon": "2", "delta": "1e-4"}
TRAIN = {"epsilon": "2", "delta": "1e-4"}
FIRST = "party 0 of 2 in"
SPENT = "epsilon 2 in {here}/capped.npz.budget.json with this run, 0 without"


@pytest.mark.parametrize(
    ("command", "options", "argument", "code", "value"),
    [
        (
            "owner",
            {"federation": "turned.toml"},
            "federation",
            "value",
            "party 1 of 2 in turned.toml",
        ),
        ("owner", {"federation": "empty"}, "federation", "value", ["empty"]),
        ("owner", {"federation": "start.npz"}, "federation", "file", "start.npz"),
        ("owner", {"model": "mlp:x"}, "model", "choice", "mlp:x"),
        ("owner", {"features": "0"}, "features", "range", 0),
        ("owner", {"classes": "0"}, "classes", "range", 0),
        ("owner", {"loss": "least-squares"}, "loss", "choice", "least-squares"),
        ("owner", {"lr": "0"}, "lr", "range", 0.0),
        ("owner", {"momentum": "1"}, "momentum", "range", 1.0),
        ("owner", {"steps": "0"}, "steps", "range", 0),
        ("owner", {"rounds": "0"}, "rounds", "range", 0),
        ("owner", {"max-grad-norm": "-1"}, "max_grad_norm", "range", -1.0),
        ("owner", {"frac-bits": "40"}, "frac_bits", "range", 40),
        ("owner", {"start": "records.npz"}, "start", "file", "records.npz"),
        ("owner", {"start": "start.npz", "max-feature-norm": "2"}, "start", "value", "start.npz"),
        ("owner", {"test": "start.npz"}, "records", "file", "start.npz"),
        ("owner", {"join-timeout": "0"}, "join_timeout", "value", 0.0),
        ("data", {"federation": "turned.toml"}, "federation", "value", f"{FIRST} turned.toml"),
        ("data", {"key": "model.pem"}, "federation", "value", f"{FIRST} pair.toml"),
        ("data", {"records": "start.npz"}, "records", "file", "start.npz"),
        ("data", {"epsilon": "0"}, "epsilon", "range", 0.0),
        ("data", {"epsilon": "1e9"}, "epsilon", "range", 1e9),
        ("data", {"delta": "2"}, "delta", "range", 2.0),
        ("data", {"most-steps": "0"}, "steps", "range", 0),
        ("data", {"sample-rate": "2"}, "sample_rate", "range", 2.0),
        ("data", {"ledger": "start.npz"}, "ledger", "value", "start.npz"),
        ("data", {"ledger": "nothing"}, "ledger", "value", "nothing"),
        ("data", {"budget": "start.npz"}, "budget", "file", "{here}/start.npz"),
        ("data", {"budget": "none"}, "budget", "value", "none"),
        ("data", {"records": "spare.npz"}, "budget", "file", "{here}/spare.npz.budget.json"),
        ("data", {"records": "capped.npz"}, "budget", "range", SPENT),
        ("data", {"records": "persons.npz"}, "units", "data", "a person with 2 records"),
        ("train", {"owners": "0"}, "owners", "range", 0),
        ("train", {"timeout": "-1"}, "timeout", "value", -1.0),
        ("train", {"data": "nothing"}, "data", "choice", "nothing"),
    ],
)
def test_refused(folder: Path, command: str, options, argument: str, code, value, monkeypatch):
    monkeypatch.chdir(folder)
    given = {"owner": OWNER, "data": DATA, "train": TRAIN}[command] | options
    typed = [word for name, text in given.items() for word in (f"--{name}", text)]
    before = sorted(folder.iterdir())
    value = value.format(here=folder) if isinstance(value, str) else value
    with refused(argument, code, value):
        call("pencil", command, *typed)
    assert sorted(folder.iterdir()) == before


def test_a_model_is_read_as_it_was_written(folder: Path):
    terms, layers = read_model(folder / "start.npz")
    assert terms == TERMS
    for pair, other in zip(layers, TERMS.spec.initial_parameters(), strict=True):
        assert all(np.array_equal(*both) for both in zip(pair, other, strict=True))
    assert (folder / "start.npz").stat().st_mode & 0o777 == 0o600
    weights = [(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros(2))]
    linear = Terms(model="logistic", features=2, classes=2)
    x = np.array([[0.5, 0.0], [0.0, 0.5], [0.4, 0.1], [0.1, 0.4]])
    assert accuracy(linear, weights, x, np.array([0, 1, 0, 0])) == 0.75
    write_model(folder / "wrong.npz", TERMS, weights)
    with refused("start", "shape", f"{folder}/wrong.npz: [(2, 2), (2,)]"):
        read_model(folder / "wrong.npz")
    (folder / "wrong.npz").unlink()


def test_those_who_are_started_together_wait_for_each_other_as_long_as_all_may_take(monkeypatch):
    """A turn may take longer than strangers are waited for, and the next owner begins after it."""
    typed: list[list[str]] = []
    monkeypatch.setattr(local, "run_together", lambda commands, *_: typed.extend(commands))
    given = [word for name, value in TRAIN.items() for word in (f"--{name}", value)]
    call("pencil", "train", "--data", "digits", "--timeout", "7000", *given)
    waits = [command[command.index("--join-timeout") + 1] for command in typed]
    assert waits == ["7000.0"] * 3


def test_a_run_that_nobody_came_to_is_not_in_the_ledger(folder: Path, tmp_path: Path):
    records, pair = Path(shutil.copy(folder / "records.npz", tmp_path)), tmp_path / "pair.toml"
    own = [Identity.read(folder / f"{name}.pem") for name in ("model", "data")]
    meeting_of(*own, pair)
    given = DATA | {"key": str(folder / "data.pem"), "federation": str(pair)}
    given |= {"records": str(records), "join-timeout": "1"}
    typed = [word for name, value in given.items() for word in (f"--{name}", value)]
    with pytest.raises(PartyLostError):
        call("pencil", "data", *typed)
    assert read(path_of(records)).entries == ()


def test_ledgers_of_an_earlier_version_beside_a_model_are_given_to_their_owners(
    tmp_path: Path, monkeypatch
):
    typed: list[list[str]] = []
    monkeypatch.setattr(local, "run_together", lambda commands, *_: typed.extend(commands))
    (tmp_path / "data-1.ledger").touch()
    given = [word for name, value in TRAIN.items() for word in (f"--{name}", value)]
    call("pencil", "train", "--data", "digits", "--out", tmp_path, *given)
    assert ["--ledger" in command for command in typed] == [False, False, True]
    assert str(tmp_path / "data-1.ledger") in typed[2]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_text_of_one_that_is_lost_ends_no_other(tmp_path: Path):
    """Processes that end at once, since they print their help, where nothing can be printed."""
    code = (
        "import pathlib, sys; from crypten_ext.pencil.local import run_together; "
        "run_together([['owner', '--help'], ['data', '--help']], pathlib.Path(sys.argv[1]), 600)"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, tmp_path], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == CUT_SHORT
    assert os.strerror(errno.ENOSPC) in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death")
def test_no_owner_outlives_the_command_that_started_it():
    budget = ("--epsilon", 8, "--delta", 1e-4, "--most-steps", 9999, "--sample-rate", 0.05)
    learn = ("--model", "logistic", "--steps", 9, "--rounds", 999, "--lr", 1)
    with started("pencil", "train", "--data", "digits", *budget, *learn) as command:
        wait_until(lambda: len(command.running()) == 4, "three owners, of one template")
        owners = command.running()
        command.process.kill()
        assert_all_end(owners)


@pytest.mark.long
def test_data_owners_take_turns_until_their_budgets_are_spent(tmp_path: Path):
    """Three processes; the model learns digits, and each ledger ends within its epsilon."""
    pytest.importorskip("seal", reason="seal-python is not installed: there is no wheel here.")
    cost = ["--epsilon", "20", "--delta", "1e-4", "--most-steps", "8", "--sample-rate", "0.1"]
    learn = ["--model", "logistic", "--steps", "4", "--rounds", "3", "--lr", "20"]
    command = [sys.executable, "-m", "crypten_ext.pencil", "train", "--data", "digits"]
    done = subprocess.run(
        [*command, *cost, *learn, "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    turns = [line for line in done.stdout.splitlines() if line.startswith("round")]
    assert [line.split(":")[0] for line in turns] == [
        f"round {number} data-{owner}" for number in (1, 2, 3) for owner in (0, 1)
    ][: len(turns)]
    assert [line for line in turns if "its budget is spent" in line] == turns[2:4]
    assert len(turns) == 4
    assert float(re.search(r"accuracy ([.\d]+)", turns[-1])[1]) > 0.4
    for owner in range(2):
        (entry,) = read(tmp_path / f"data-{owner}.budget.json").entries
        assert (entry.spent, entry.told) == (True, 8)
        assert 0 < entry.epsilon(1e-4) <= 20
    assert read_model(tmp_path / "model.npz")[0].model == "logistic"


@pytest.mark.long
def test_a_data_owner_whose_file_is_put_into_the_folder_joins_in_the_next_round(tmp_path: Path):
    """The second one's federation comes while the first round waits for the first one."""
    pytest.importorskip("seal", reason="seal-python is not installed: there is no wheel here.")
    model = make("model", tmp_path / "model.pem", 1)
    own = [make(f"data-{i}", tmp_path / f"data-{i}.pem", 1) for i in range(2)]
    (tmp_path / "pairs").mkdir()
    files = [meeting_of(model, one, tmp_path / f"{one.name}.toml") for one in own]
    draws = np.random.default_rng(5)
    x, y = draws.uniform(0, 0.4, (40, 4)), np.arange(40) % 2
    write_private(tmp_path / "records.npz", train_x=x, train_y=y, test_x=x, test_y=y)
    command = [sys.executable, "-m", "crypten_ext.pencil"]
    learn = ["--model", "logistic", "--features", "4", "--classes", "2", "--steps", "1"]
    learn += ["--rounds", "2", "--key", str(model.path), "--out", str(tmp_path / "model.npz")]
    learn += ["--federation", str(tmp_path / "pairs")]
    cost = ["--epsilon", "8", "--delta", "1e-3", "--records", str(tmp_path / "records.npz")]
    shutil.copy(files[0], tmp_path / "pairs")
    with subprocess.Popen([*command, "owner", *learn], stdout=subprocess.PIPE, text=True) as owner:
        try:
            until_reachable(files[0])
            shutil.copy(files[1], tmp_path / "pairs")
            others = []
            for file, one in zip(files, own, strict=True):
                given = ["--federation", str(file), "--key", str(one.path)]
                given += ["--budget", str(tmp_path / f"{one.name}.budget.json")]
                others.append(subprocess.Popen([*command, "data", *cost, *given]))
            said, _ = owner.communicate(timeout=300)
        finally:
            owner.kill()
    assert [other.wait(60) for other in others] == [0, 0]
    assert owner.returncode == 0
    found = [line.split(":")[0] for line in said.splitlines() if line.startswith("round")]
    assert found == ["round 1 data-0", "round 2 data-0", "round 2 data-1"]


def until_reachable(federation: Path) -> None:
    """Returns once the first member of a federation listens."""
    address = Federation.read(federation).parties[0].address
    host, _, port = address.rpartition(":")
    for _ in range(1200):
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens at {address}")
