"""What a run has opened on the way is charged, however often and from wherever it goes on."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.errors import PeaError
from extensions.runs.checkpoints import (
    AllCheckpoints,
    Checkpoint,
    CheckpointOptions,
    PartyCheckpoints,
)
from tests.helpers.refused import refused

STEPS = 8
SHARES: list[dict[str, Any]] = [{"w": np.arange(3) + rank} for rank in range(2)]


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Run:
    """Two parties' checkpoints, which this process directs."""

    def __init__(self, folder: Path, *, resume: bool) -> None:
        options = CheckpointOptions(folder=folder, every=2, resume=resume)
        run: dict[str, Any] = {"steps": STEPS, "settings": {}, "own": {}}
        self.parties = [PartyCheckpoints(options, rank, **run) for rank in range(2)]
        self.bases: list[Checkpoint] = AllCheckpoints(self.parties).settle()

    @property
    def base(self) -> int | None:
        assert len(self.bases) in (0, len(self.parties))
        (step,) = {base.step for base in self.bases} or {None}
        return step

    @property
    def spent(self) -> Any:
        first, second = (party.spent for party in self.parties)
        assert first == second
        return first

    def write(self, step: int, ledger: str) -> None:
        for party, own in zip(self.parties, SHARES, strict=True):
            party.write(step, own, optimizer={"ledger": ledger}, source=None)

    def charge(self, ledger: str) -> None:
        for party in self.parties:
            party.charge({"ledger": ledger})

    def store(self) -> None:
        for party, own in zip(self.parties, SHARES, strict=True):
            party.store(own, own, optimizer={}, source=None)


def test_every_continuation_has_what_was_charged_last(tmp_path):
    folder = tmp_path / "run"
    run = Run(folder, resume=False)
    for step in (2, 4):
        run.write(step, f"{step} steps")
    run.charge("5 steps, 1 count")
    for _ in range(2):  # from one checkpoint, twice
        run = Run(folder, resume=True)
        assert (run.base, run.spent) == (4, {"ledger": "5 steps, 1 count"})
    run.charge("6 steps, 2 counts")
    run.write(6, "7 steps, 2 counts")
    assert Run(folder, resume=True).spent == {}, "the checkpoint is later"
    (folder / "party-0-step-6.checkpoint").unlink()
    run = Run(folder, resume=True)
    assert (run.base, run.spent) == (4, {"ledger": "6 steps, 2 counts"})


def test_a_run_that_was_charged_before_its_first_checkpoint_begins_anew(tmp_path):
    Run(tmp_path / "run", resume=False).charge("1 step, 1 count")
    with refused("checkpoint", "file", str(tmp_path / "run")):
        Run(tmp_path / "run", resume=False)
    run = Run(tmp_path / "run", resume=True)
    assert (run.base, run.spent) == (None, {"ledger": "1 step, 1 count"})
    assert [(party.kept, party.resumed) for party in run.parties] == [(True, (0,))] * 2
    run.write(2, "3 steps, 1 count")
    again = Run(tmp_path / "run", resume=True)
    assert (again.base, again.spent) == (2, {})


def test_a_charge_of_one_party_alone_opened_nothing(tmp_path):
    """It may count nevertheless, and never hides a later one."""
    run = Run(tmp_path / "run", resume=False)
    run.write(2, "2 steps")
    run.parties[0].charge({"ledger": "3 steps, 1 count"})
    run = Run(tmp_path / "run", resume=True)
    assert [party.spent for party in run.parties] == [{"ledger": "3 steps, 1 count"}, {}]
    run.charge("4 steps, 2 counts")
    assert Run(tmp_path / "run", resume=True).spent == {"ledger": "4 steps, 2 counts"}


def test_a_copy_that_lacks_a_charge_is_refused(tmp_path):
    run = Run(tmp_path / "run", resume=False)
    run.write(2, "2 steps")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    shutil.copytree(tmp_path / "run", tmp_path / "old")
    copy = Run(tmp_path / "copy", resume=True)
    run.charge("3 steps, 1 count")
    with pytest.raises(PeaError, match="has opened something"):
        copy.store()
    with pytest.raises(PeaError, match="has opened 'value-1'"):
        copy.charge("4 steps, 1 count")
    for name in ("copy", "old"):
        with refused("checkpoint", "file"):
            Run(tmp_path / name, resume=True)
    (tmp_path / "run" / "party-1.charges").unlink()
    with refused("checkpoint", "file", f"{tmp_path}/run, without all that its run has opened"):
        Run(tmp_path / "run", resume=True)


def test_nothing_more_is_opened_once_another_continuation_is_finished(tmp_path):
    run = Run(tmp_path / "run", resume=False)
    run.write(2, "2 steps")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    copy = Run(tmp_path / "copy", resume=True)
    run.store()
    for party in run.parties:
        party.mark()
    with pytest.raises(PeaError, match="continuation of this run was finished"):
        copy.charge("3 steps, 1 count")
    run.charge("8 steps, 1 count")
