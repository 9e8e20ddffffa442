"""Whole small runs of the command that are killed for real, at random times, and resumed.

PEA_TEST_KILLS says how many runs of a host (3); each has a seed, its number, and is killed up to
`KILLS_OF_A_RUN` times in a row.
"""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import PLAIN, Command, once, pea_apart, started
from tests.helpers.patience import PATIENCE
from tests.tfe_ext.test_compat import needs_tensorflow

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

RUNS = int(os.environ.get("PEA_TEST_KILLS", "3"))
KILLS_OF_A_RUN = 5
CHANGES = 6
"""Changes of a run's folder, at most, between its start and a kill."""
STEPS = 6
RUN = ("train", *PLAIN, "--steps", STEPS, "--checkpoint-every", 2, "--evaluate", "opened")
RUN = (*once(*RUN, "--sample-rate", 0.05), "--noise-multiplier", 1.0, "--delta", 1e-5)
HOSTS = {"clear": 3, "crypten": 2, "tfe": 3}


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def content(folder: Path) -> set[tuple[str, int]]:
    """Returns the names of a folder's files, and when each was written."""
    found = set()
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                found.add((path.name, path.stat().st_mtime_ns))
    return found


def kill(command: Command, folder: Path, draws: np.random.Generator) -> bool:
    """Returns whether some or all processes of a run were killed before it ended by itself.

    They are, soon after the folder has changed for a random number of times.
    """
    left, delay = draws.integers(1, CHANGES + 1), 10 ** draws.uniform(-5, -1.5)
    deadline, seen = time.monotonic() + PATIENCE, content(folder)
    while left and command.process.poll() is None:
        assert time.monotonic() < deadline, "the run hangs"
        now = content(folder)
        begun = [*folder.glob("*-step-2.*")] or [*folder.glob("*.release")]
        left, seen = left - bool(begun and now != seen), now
        time.sleep(0.0001)
    time.sleep(delay)
    if command.process.poll() is not None:
        return False
    every = [command.process.pid, *command.running()]
    for pid in every if draws.random() < 0.5 else [int(draws.choice(every))]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return True


def results(folder: Path, parties: int) -> list[Any]:
    """Returns each party's result in figures; None where there is none."""
    found: list[Any] = []
    for rank in range(parties):
        path = folder / f"party-{rank}-result.json"
        if not path.exists():
            found.append(None)
            continue
        report = json.loads(path.read_text())
        with np.load(folder / f"party-{rank}-opened.npz") as arrays:
            model = tuple(arrays[name].tobytes() for name in sorted(arrays.files))
        found.append((report["accuracy"], report["epsilon"], model))
    return found


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.parametrize(
    "backend", ["clear", "crypten", pytest.param("tfe", marks=needs_tensorflow)]
)
def test_a_run_that_is_killed_loses_no_complete_model_and_opens_no_second(tmp_path, backend, seed):
    parties, folder = HOSTS[backend], tmp_path / "kept"
    holders, draws = 1 if backend == "clear" else parties, np.random.default_rng(seed)
    run = (*RUN, "--backend", backend, "--parties", parties, "--checkpoint", folder)
    known, kills = [results(folder, holders)], 0
    for _ in range(KILLS_OF_A_RUN):
        with started(*run, *(["--resume"] if kills else [])) as command:
            killed = kill(command, folder, draws)
            command.finish()
        known.append(results(folder, holders))
        if not killed:
            break
        kills += 1
        names = sorted({name.partition("-step")[0] for name, _ in content(folder)})
        print(f"{backend} {seed}: killed with {names}")
    texts = [pea_apart(*run, "--resume").stderr]
    if killed:
        texts.append(pea_apart(*run, "--resume").stderr)
    known.append(results(folder, holders))
    assert "of a run that was finished" in texts[-1], texts
    opened = {result for each in known for result in each} - {None}
    assert len(opened) == 1, "a model is lost, or a second one was opened"
    assert None not in known[-1]
    assert not [*folder.glob("*release*")]
    print(f"{backend} {seed}: {kills} kills")
