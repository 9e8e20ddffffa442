"""Whole trainings whose servers, owner or script are killed, stopped or cut off at random moments.

Every role is a process on a host of its own. PEA_TEST_LOSSES says how many trainings (6); the seed
of each is its number. A training goes on from its checkpoint by itself, or names who is lost.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from itertools import chain

import numpy as np
import pytest

from tests.helpers.hosts_apart import Hosts, needs_root
from tests.helpers.lossy_script import STEPS
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE
from tests.helpers.players import SERVERS, running_players, write
from tests.tfe_ext.test_compat import needs_tensorflow

pytestmark = [pytest.mark.long, needs_tensorflow, needs_root]

TRAININGS = int(os.environ.get("PEA_TEST_LOSSES", "6"))
PLAYERS = (*SERVERS, "owner")
SCRIPT = "script"
HARMS = ("killed", "stopped", "cut off")
BRIEF, NAMED_WITHIN = 3.0, 60.0
"""Seconds."""
TRUNCATION = 100 * 2.0**-20


class Session:
    """Players and a script, each on a host of its own."""

    def __init__(self, folder, stack):
        self.folder = folder
        self._stack = stack
        self.hosts = stack.enter_context(Hosts([*PLAYERS, SCRIPT]))
        there = {name: f"{self.hosts.addresses[name]}:4440" for name in PLAYERS}
        self._file = write(folder / "players.json", there)
        self._running = {}
        self._pids = {}
        self._said = queue.SimpleQueue()
        for name in PLAYERS:
            self.start(name)
        self.start(SCRIPT)

    def start(self, name):
        """Starts a role, in place of the process that had it."""
        if name in self._running:
            self._running.pop(name).close()
        own = self._running[name] = self._stack.enter_context(ExitStack())
        with self.hosts.inside(name):
            if name == SCRIPT:
                self._start_script(own)
            else:
                _, pids = own.enter_context(running_players(self._file, "--player", name))
                self._pids[name] = pids[name]

    def _start_script(self, own):
        self._script = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.lossy_script", str(self._file)],
            cwd=ROOT,
            env={**os.environ, "XDG_STATE_HOME": str(self.folder), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        own.callback(self._script.communicate)
        own.callback(self._script.kill)
        self._pids[SCRIPT] = self._script.pid
        self._said = said = queue.SimpleQueue()
        lines = self._script.stdout
        threading.Thread(target=lambda: [*map(said.put, chain(lines, [""]))], daemon=True).start()
        assert "up" in self.hear()

    def ask(self, folder):
        """Lets the script train in the folder."""
        self._script.stdin.write(f"{folder}\n")
        self._script.stdin.flush()

    def hear(self):
        """What the script says next."""
        try:
            line = self._said.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError("the script hangs") from None
        assert line, "the script ended"
        return json.loads(line)

    def hear_until(self, *kinds):
        """What the script says next that is of such a kind."""
        while not set(kinds) & (told := self.hear()).keys():
            pass
        return told

    def hear_again(self, told):
        """Lets the script say it once more; it has said nothing since."""
        self._said.put(json.dumps(told))

    def harm(self, name, how):
        """Does it."""
        if how == "cut off":
            self.hosts.pull(name)
        else:
            os.kill(self._pids[name], signal.SIGKILL if how == "killed" else signal.SIGSTOP)

    def mend(self, name, how):
        """Undoes it, as far as that can be done."""
        if how == "cut off":
            self.hosts.plug(name)
        elif how == "stopped":
            os.kill(self._pids[name], signal.SIGCONT)
        else:
            self.start(name)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with ExitStack() as stack:
        yield Session(tmp_path_factory.mktemp("losses"), stack)


@pytest.fixture(scope="module")
def undisturbed(session):
    """What a training gives that nobody disturbs."""
    session.ask(session.folder / "undisturbed")
    return session.hear_until("done")["done"]


@pytest.mark.parametrize("seed", range(TRAININGS))
def test_training_survives_or_names_who_is_lost(session, undisturbed, seed):
    draws = np.random.default_rng(seed)
    role, how = str(draws.choice([*PLAYERS, SCRIPT])), str(draws.choice(HARMS))
    is_brief, restarts = draws.random(2) < (0.25, 0.5)
    folder = session.folder / f"kept-{seed}"
    session.ask(folder)
    _wait(session, draws)
    session.harm(role, how)
    harmed = time.monotonic()
    if role == SCRIPT and how == "killed":
        session.start(SCRIPT)
        session.ask(folder)
        told = session.hear_until("done", "lost")
    elif how != "killed" and (is_brief or (role, how) == (SCRIPT, "stopped")):
        time.sleep(BRIEF)
        session.mend(role, how)
        told = session.hear_until("done", "lost")
    else:
        told = session.hear_until("done", "lost")
        if how == "stopped" and restarts:
            session.start(role)
        else:
            session.mend(role, how)
    took = told["at"] - harmed
    what = f"{seed}: {role} was {how}: {told.get('lost', 'nobody')} was lost"
    while "lost" in told:
        assert took < NAMED_WITHIN, f"{what}, after {took:.0f} s"
        assert role in (SCRIPT, told["lost"]), f"{what}: {told}"
        told = session.hear_until("done", "lost")
    end = told["done"]
    print(f"{what}, {took:.1f} s after it; resumed from {end and end['resumed']}")
    if end is None:
        assert (role, how) == (SCRIPT, "killed")
        return
    assert end["state"] == undisturbed["state"]
    assert f'"steps": {STEPS},' in end["state"]["ledger"]
    for name, values in undisturbed["weights"].items():
        np.testing.assert_allclose(end["weights"][name], values, atol=TRUNCATION)


def _wait(session, draws):
    """Returns at a random moment: while it connects and traces, in a step, or after the last."""
    steps = draws.integers(-2, STEPS + 1)
    if steps > 0:
        while (told := session.hear_until("step", "done")).get("step", STEPS) < steps:
            pass
        if "done" in told:
            session.hear_again(told)
    elif steps == 0:
        session.hear_until("begun")
    time.sleep(draws.uniform(0, 5 if steps <= 0 else 0.5))
