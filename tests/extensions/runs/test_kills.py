"""Whole small runs of the command that are killed for real, at random times, and then resumed.

PEA_TEST_KILLS says how many a host (5); each has a seed, its number.
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

from tests.helpers.commands import Command, pea_apart, started
from tests.helpers.patience import PATIENCE
from tests.tfe_ext.test_compat import needs_tensorflow

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

KILLS = int(os.environ.get("PEA_TEST_KILLS", "5"))
STEPS = 6
RUN = ("train", "--steps", STEPS, "--checkpoint-every", 2, "--evaluate", "opened")
RUN = (*RUN, "--noise-multiplier", 1.0, "--delta", 1e-5, "--sample-rate", 0.05)
HOSTS = {"clear": 3, "crypten": 2, "tfe": 3}
WATCHED = ("*-step-2.*", f"*-step-{STEPS}.*", "*.release", "*.finished", "*-opened.*", "*-result.*")
"""Files after whose appearance a run is killed."""


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def kill(command: Command, folder: Path, seed: int) -> None:
    """Kills all processes of a run, or one of them, soon after some file appears."""
    draws = np.random.default_rng(seed)
    watched, delay = WATCHED[draws.integers(len(WATCHED))], 10 ** draws.uniform(-5, -1.5)
    deadline = time.monotonic() + PATIENCE
    while not [*folder.glob(watched)] and command.process.poll() is None:
        assert time.monotonic() < deadline, "the run hangs"
        time.sleep(0.0001)
    time.sleep(delay)
    every = [command.process.pid, *command.running()]
    for pid in every if draws.random() < 0.5 else [int(draws.choice(every))]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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


@pytest.mark.parametrize("seed", range(KILLS))
@pytest.mark.parametrize(
    "backend", ["clear", "crypten", pytest.param("tfe", marks=needs_tensorflow)]
)
def test_a_run_that_is_killed_loses_no_complete_model_and_opens_no_second(tmp_path, backend, seed):
    parties, folder = HOSTS[backend], tmp_path / "kept"
    holders = 1 if backend == "clear" else parties
    run = (*RUN, "--backend", backend, "--parties", parties, "--checkpoint", folder)
    with started(*run) as command:
        kill(command, folder, seed)
        command.finish()
    stored = len([*folder.glob("party-*.release")]) == holders
    marked = bool([*folder.glob("party-*.finished")])
    before = results(folder, holders)
    texts = [pea_apart(*run, "--resume") for _ in range(2)]
    after = results(folder, holders)
    assert "of a run that was finished" in texts[-1].stderr, [each.stderr for each in texts]
    assert len({*after}) == 1
    assert after[0] is not None, "a model is lost"
    assert all(was in (None, now) for was, now in zip(before, after, strict=True))
    assert not [*folder.glob("*release*")]
    missing = before.count(None)
    print(f"{backend} {seed}: stored {stored}, marked {marked}, {missing} results missing")
