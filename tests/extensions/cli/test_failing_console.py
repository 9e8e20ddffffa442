"""A console that fails takes nothing with it: a command does and writes all that it should."""

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np
import pytest

from extensions.cli import console
from extensions.printing import CUT_SHORT
from tests.helpers.commands import PROGRAM, here, pea
from tests.helpers.paths import ROOT

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")]

TRAIN = ("train", "--data", "digits", "--parties", 2, "--steps", 2, "--epsilon", 2, "--delta", 1e-5)
KINDS = {"full disk": CUT_SHORT, "closed pipe": 0, "latin-1": 0, "ascii": 0}
"""What may be wrong with a console, and the status of a command that did all else."""


@contextmanager
def opened(kind: str) -> Iterator[TextIO]:
    """Yields a stream of that kind."""
    if kind in ("latin-1", "ascii"):
        yield io.TextIOWrapper(io.BytesIO(), encoding=kind)
        return
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as closed, open("/dev/full", "w") as full:
        yield full if kind == "full disk" else closed


@pytest.fixture(params=KINDS)
def typed(request, monkeypatch, tmp_path):
    """Returns what runs a command whose standard output and error are of a kind."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> None:
        with (
            opened(request.param) as out,
            opened(request.param) as err,
            monkeypatch.context() as own,
        ):
            own.setattr(sys, "stdout", out)
            own.setattr(sys, "stderr", err)
            status = here(own, *arguments)
        assert status == KINDS[request.param]

    return run


def test_runs_keep_what_they_were_asked_for(typed):
    kept = ("--budget", "ledger.json", "--json", "run.json", "--save", "model")
    typed(*TRAIN, "--backend", "clear", "--evaluate", "opened", *kept)
    assert json.loads(Path("run.json").read_text())["steps"] == 2
    Path("run.json").unlink()

    rows = np.zeros((3, 64))
    np.savez("rows.npz", x=rows)
    model = ("--model", "model/model.npz")
    typed("predict", *model, "--records", "rows.npz", "--out", "rows.csv")
    assert len(Path("rows.csv").read_text().splitlines()) == 1 + len(rows)
    typed("export", *model, "--to", "npz", "--out", "exported.npz")
    assert Path("exported.npz").exists()

    Path("ledger.json").rename("own.budget.json")
    typed("budget", "own.budget.json", "--json", "budget.json")
    assert len(json.loads(Path("budget.json").read_text())["runs"]) == 1
    sizes = ("--records", "900,900", "--columns", 64, "--backend", "clear", "--parties", 2)
    typed("plan", *sizes, "--epsilon", 2, "--delta", 1e-5, "--json", "plan.json")
    assert json.loads(Path("plan.json").read_text())["steps"]

    typed("split", "--data", "digits", "--parties", 2, "--out", ".")
    assert len([*Path().glob("party-*.npz")]) == 2
    typed("keys", "--name", "host", "--out", "host.pem")
    assert b"PRIVATE KEY" in Path("host.pem").read_bytes()


@pytest.mark.parametrize("typed", ["full disk"], indirect=True)
def test_shared_models_are_counted_and_opened(typed, tmp_path):
    """By full names: processes of other tests, which parties are copies of, are elsewhere."""
    shares, parties = ("--shares", tmp_path / "shares"), ("--provider", "tfp")
    typed(*TRAIN, "--backend", "crypten", "--save", tmp_path / "shares", "--json", "run.json")
    assert json.loads(Path("run.json").read_text())["steps"] == 2
    typed("split", "--data", "digits", "--parties", 2, "--out", ".", "--features", "raw")
    typed("open", *shares, "--out", tmp_path / "model", *parties)
    assert Path("model/model.npz").exists()
    owner = ("--data-for-party", f"0={tmp_path / 'party-0.npz'}")
    typed("evaluate", *shares, *owner, "--json", "counts.json", *parties)
    assert 0 <= json.loads(Path("counts.json").read_text())["accuracy"] <= 1


def test_federated_runs_keep_what_they_were_asked_for(typed):
    run = ("fl", "--aggregator", "masked", "--model", "logistic", "--clients", 5, "--rounds", 1)
    kept = ("--json", "run.json", "--save", "model.npz", "--csv", "rounds.csv")
    typed(*run, "--client-fraction", 1, *kept)
    assert json.loads(Path("run.json").read_text())["rounds"] == 1
    assert Path("model.npz").exists()
    assert len(Path("rounds.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize("streams", [("stdout",), ("stderr",), ("stdout", "stderr")])
def test_text_that_is_lost_is_told_and_gives_a_status(streams, tmp_path):
    """As a process of its own, which Python ends with a status of its own if it may."""
    with open("/dev/full", "w") as full:
        given = {
            name: full if name in streams else subprocess.PIPE for name in ("stdout", "stderr")
        }
        typed = [*map(str, TRAIN), "--backend", "clear", "--json", str(tmp_path / "run.json")]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *typed],
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path)},
            text=True,
            **given,
        )
    assert done.returncode == CUT_SHORT
    assert (tmp_path / "run.json").exists()
    if "stderr" not in streams:
        assert os.strerror(errno.ENOSPC) in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


def test_an_error_has_its_own_status_on_any_console(monkeypatch):
    for arguments, status in ((("train", "--nothing"), 2), (("export", "--model", "no.npz"), 2)):
        with opened("full disk") as out, opened("full disk") as err, monkeypatch.context() as own:
            own.setattr(sys, "stdout", out)
            own.setattr(sys, "stderr", err)
            assert here(own, *arguments) == status


@pytest.mark.parametrize("broken", ["--json", "--save"])
def test_a_file_that_cannot_be_written_keeps_no_other_back(broken, tmp_path, monkeypatch):
    """A disk may be full when a run has ended: it is asked before, which says that it is not."""
    files = {"--json": tmp_path / "run.json", "--save": tmp_path / "model" / "model.npz"}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(console, "as_json" if broken == "--json" else "write_opened", full)
    options = ("--json", files["--json"], "--save", tmp_path / "model", "--evaluate", "opened")
    done = pea(*TRAIN, "--backend", "clear", "--budget", "none", *options)
    assert done.returncode == 1
    assert os.strerror(errno.ENOSPC) in done.stderr
    assert "accuracy" in done.stdout
    (whole,) = (path for flag, path in files.items() if flag != broken)
    assert whole.stat().st_size > 0
