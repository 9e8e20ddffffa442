"""What commands write never takes the place of what they read, of a private key or of a ledger."""

import os
from pathlib import Path

import numpy as np
import pytest

from extensions.cli.main import PeaCommands
from extensions.errors import MissingExtraError
from extensions.runs.budget import Cap, path_of, update
from extensions.runs.budget.account import Account
from extensions.transport import make
from tests.helpers.commands import command_of, pea

PARTY = ("party", "--rank", 0, "--world-size", 2, "--key", "north.pem", "--records", "p.csv")
PARTY = (*PARTY, "--schema", "schema.toml", "--config", "run.toml")
EPSILON = ("--epsilon", 2, "--delta", 1e-5)
TRAIN = ("train", "--backend", "clear", "--parties", 1, *EPSILON)
PLAN = ("plan", "--records", 100, "--columns", 5, *EPSILON)
FEATURES = ("features", "--records", "p.npz", "--features", "raw")
REFUSED = {
    "the key": ((*PARTY, "--json", "north.pem"), "--key"),
    "the records": ((*PARTY, "--json", "p.csv"), "--records"),
    "the schema": ((*PARTY, "--json", "schema.toml"), "--schema"),
    "the options": ((*PARTY, "--json", "run.toml"), "--config"),
    "the federation": ((*PARTY, "--json", "federation.toml"), "--rendezvous"),
    "another spelling": ((*PARTY, "--json", "folder/../p.csv"), "--records"),
    "a symbolic link": ((*PARTY, "--json", "soft.csv"), "--records"),
    "a hard link": ((*PARTY, "--json", "hard.csv"), "--records"),
    "a party's records": ((*TRAIN, "--data-for-party", "0=p.npz", "--json", "p.npz"), "--data-for"),
    "records of all": ((*TRAIN, "--data", "csv:p.csv", "--json", "p.csv"), "--data"),
    "records in a folder": (
        (*TRAIN, "--data-for-party", "0=folder/party-0.npz", "--save", "folder"),
        "--data-for-party",
    ),
    "a ledger of any name": (
        (*TRAIN, "--data", "npz:p.npz", "--budget", "new.json", "--json", "new.json"),
        "--budget",
    ),
    "records asked about": (
        ("predict", "--model", "m.npz", "--records", "p.csv", "--out", "p.csv"),
        "--records",
    ),
    "a share": (
        ("evaluate", "--shares", "folder", "--json", "folder/party-0.npz"),
        "--shares",
    ),
    "the model": (("export", "--model", "m.npz", "--to", "npz", "--out", "m.npz"), "--model"),
    "records without features": ((*FEATURES, "--out", "p.npz"), "--records"),
    "records that are cut": (
        ("split", "--data", "npz:folder/party-0.npz", "--out", "folder"),
        "--data",
    ),
    "any key": ((*FEATURES, "--out", "south.pem"), "private key"),
    "a key by a link": ((*PLAN, "--json", "soft.pem"), "private key"),
    "a ledger": (("budget", "p.csv", "--json", "p.csv.budget.json"), "ledger"),
    "a ledger that is still to be": ((*PARTY, "--json", "q.csv.budget.json"), "ledger"),
    "a ledger by a link": ((*PLAN, "--json", "soft.json"), "ledger"),
    "a ledger under another name": ((*PLAN, "--json", "moved.json"), "ledger"),
}
WRITTEN = {
    "align": {"checkpoint", "out"},
    "budget": {"json"},
    "doctor": {"json"},
    "evaluate": {"json"},
    "explain": {"out"},
    "export": {"out"},
    "features": {"out"},
    "fl": {"checkpoint", "csv", "json", "save"},
    "open": {"out"},
    "party": {"json", "save"},
    "plan": {"json"},
    "predict": {"out"},
    "prepare": {"out"},
    "report": {"html"},
    "schema": {"out"},
    "split": {"out"},
    "train": {"json", "save"},
}
"""Names of the parameters of each command that are written."""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's folder, in which the command is typed."""
    monkeypatch.chdir(tmp_path)
    for name in ("north", "south"):
        make(name, tmp_path / f"{name}.pem")
    for name in ("p.csv", "schema.toml", "federation.toml", "m.npz", "p.npz"):
        Path(name).write_text(f"what {name} holds")
    Path("run.toml").write_text("steps = 2\n")
    Path("folder").mkdir()
    np.savez("folder/party-0.npz", x=np.zeros(2))
    update(path_of(Path("p.csv")), lambda _: Account(cap=Cap(epsilon=6.0, delta=1e-5)))
    os.link("p.csv.budget.json", "moved.json")
    for name, target in (("csv", "p.csv"), ("pem", "south.pem"), ("json", "p.csv.budget.json")):
        Path(f"soft.{name}").symlink_to(target)
    os.link("p.csv", "hard.csv")
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("typed", "named"), REFUSED.values(), ids=REFUSED)
def test_nothing_of_worth_is_replaced(host, typed, named):
    before = contents(host)
    done = pea(*typed)
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    assert str(typed[-1]) in line
    assert named in line
    assert f"{typed[-2]} would replace" in line
    assert contents(host) == before


def test_a_report_of_before_is_replaced(host):
    for epsilon in (2, 3):
        assert pea(*PLAN[:-4], "--epsilon", epsilon, *EPSILON[2:], "--json", "r").returncode == 0


def test_each_command_says_what_it_writes():
    found = {}
    for name in {*PeaCommands.points()} - {"pencil"}:
        try:
            command = command_of(name)
        except MissingExtraError as error:
            pytest.skip(str(error))
        written = {leaf.key for leaf in command.leaves if leaf.writes}
        found |= {name: written} if written else {}
    assert found == WRITTEN
