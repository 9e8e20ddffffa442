"""Whole runs over TLS of which a party or the dealer is killed or stopped at a random moment.

PEA_TEST_FAULTS says how many runs (8, every harm to every role once); the seed of each is its
number. Every other party ends and says who it was, nothing of it is left, the run goes on from its
checkpoint with the same dealer or a new one, and no ledger has less than what was spent.
"""

import os
import re
import signal
import socket
import time
from contextlib import ExitStack
from itertools import product

import numpy as np
import pytest

from crypten_ext.processes.joining import TLS_SILENCE
from extensions.transport import Federation, Member
from tests.helpers.commands import pea
from tests.helpers.copied import CopiedCommand, template
from tests.helpers.federations import identities
from tests.helpers.patience import PATIENCE

pytestmark = [pytest.mark.long]

RUNS = int(os.environ.get("PEA_TEST_FAULTS", "8"))
ROLES = ("party 0", "party 1", "party 2", "the dealer")
KINDS = [*product(ROLES, (signal.SIGKILL, signal.SIGSTOP))]
EPSILON = 2.0
PAID = 0.98 * EPSILON
NAMED = TLS_SILENCE + 45.0
"""Seconds to the end of all others on a busy machine; else a minute."""
NAMES = ("p0", "p1", "p2", "dealer")
RUN = ("--world-size", 3, "--epsilon", EPSILON, "--delta", 1e-5, "--steps", 16)
RUN = (*RUN, "--checkpoint-every", 2, "--evaluate", "opened", "--join-timeout", PATIENCE)


class Hospitals:
    """Three parties' files, their federation, and what runs."""

    def __init__(self, folder, imported, stack):
        self.folder, self._imported, self._stack = folder, imported, stack
        pea("split", "--data", "digits", "--parties", 3, "--out", folder)
        with ExitStack() as free:
            listeners = [free.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in NAMES]
            places = [f"127.0.0.1:{one.getsockname()[1]}" for one in listeners]
        members = [
            Member(
                name=one.name,
                role="dealer" if one.name == "dealer" else "party",
                address=place,
                fingerprint=one.fingerprint,
            )
            for one, place in zip(identities(folder, *NAMES), places, strict=True)
        ]
        Federation(members).write(folder / "federation.toml")
        self.running = {}

    def start(self, role, *further):
        """Starts a role, in place of the process that had it."""
        key = ("--key", self.folder / f"{NAMES[ROLES.index(role)]}.pem")
        file = self.folder / "federation.toml"
        if role == "the dealer":
            words = ("dealer", "--federation", file, *key)
        else:
            rank = ROLES.index(role)
            own = ("--rank", rank, "--rendezvous", f"tls://{file}", "--records", self.records(rank))
            words = ("party", *RUN, *own, *key, "--checkpoint", self.kept(rank), *further)
        command = CopiedCommand(self._imported, *words)
        self._stack.callback(command.stop)
        self.running[role] = command

    def records(self, rank):
        return self.folder / f"party-{rank}.npz"

    def kept(self, rank):
        return self.folder / f"kept-{rank}"

    def has_checkpoint(self, rank):
        return any(self.kept(rank).glob("party-*-step-*"))

    def spent(self, rank):
        """Returns the epsilon of all runs of a party's records, by its ledger."""
        told = pea("budget", self.records(rank), "--delta", 1e-5).stdout
        return float(re.search(r"epsilon ([0-9.]+)", told)[1])

    def changes(self):
        """Returns how often the parties' folders have changed, as far as that shows."""
        return sum(len([*self.kept(rank).glob("*")]) for rank in range(3))


def harm(hospitals, role, how, draws):
    """Harms a role while all train, or soon after, and says when."""
    changes = int(draws.integers(1, 12))
    begin = time.monotonic()
    while hospitals.changes() < changes and hospitals.running["party 0"].process.poll() is None:
        assert time.monotonic() - begin < PATIENCE
        time.sleep(0.002)
    delay = 10 ** draws.uniform(-3, 0)
    time.sleep(delay)
    os.kill(hospitals.running[role].process.pid, how)
    return f"{delay:.3f} s after change {changes}"


@pytest.fixture(scope="module")
def imported():
    """What all commands are copies of."""
    found = template()
    yield found
    found.end()


@pytest.mark.parametrize("seed", range(RUNS))
def test_all_others_end_and_say_who_it_was_and_no_budget_is_lost(
    tmp_path, seed, monkeypatch, imported
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (role, how), draws = KINDS[seed % len(KINDS)], np.random.default_rng(seed)
    with ExitStack() as stack:
        hospitals = Hospitals(tmp_path, imported, stack)
        for each in reversed(ROLES):
            hospitals.start(each)
        moment = harm(hospitals, role, how, draws)
        begin = time.monotonic()
        ended = {each: hospitals.running[each].finish() for each in ROLES[:3] if each != role}
        took = time.monotonic() - begin
        print(f"{seed}: {role} {how.name} {moment}; ended within {took:.0f} s")
        for each, result in ended.items():
            if result.returncode == 0:  # its run was over
                assert "epsilon" in result.stdout
                continue
            assert result.returncode == 1, result
            assert f"{role} " in result.stdout, (each, result.stdout)
        assert took < NAMED
        for rank in range(3):
            assert hospitals.spent(rank) > 0 or not hospitals.has_checkpoint(rank)
        hospitals.running[role].stop()
        if 0 in {result.returncode for result in ended.values()}:  # nobody needs its results
            assert all(hospitals.spent(rank) >= PAID for rank in range(3))
        else:
            finish(hospitals, role)


def finish(hospitals, role):
    """The run goes on, or begins anew, and is paid for by all."""
    dealer = hospitals.running["the dealer"]
    if role == "the dealer":
        hospitals.start(role)
    else:
        assert dealer.process.poll() is None, "the dealer waits for the next run"
    resumes = all(hospitals.has_checkpoint(rank) for rank in range(3))
    for rank, each in enumerate(ROLES[:3]):
        if not resumes:
            for file in hospitals.kept(rank).glob("*"):
                file.unlink()
        hospitals.start(each, *(["--resume"] if resumes else []))
    results = [hospitals.running[each].finish() for each in ROLES[:3]]
    for rank, result in enumerate(results):
        finished = "was finished" in result.stdout
        assert result.returncode == 0 or finished, [one.stdout for one in results]
        assert hospitals.spent(rank) >= PAID
