"""Parties on hosts of their own: cables are pulled, hosts vanish, links are slow."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from extensions.transport import Federation, Member
from tests.crypten_ext.test_launch import TASKS
from tests.helpers.federations import identities
from tests.helpers.hosts_apart import Hosts, needs_root
from tests.helpers.patience import PATIENCE, wait_until

pytestmark = [pytest.mark.long, needs_root]

NAMES = ["p0", "p1", "p2"]
BACK = 20.0
"""Seconds within which a party must be back."""
NAMED = BACK + 40.0
"""Seconds within which it is named on a busy machine: the statuses of all are waited for."""


class Parties:
    """Three that count together, each on a host of its own."""

    def __init__(self, folder, hosts, stack):
        self.hosts = hosts
        self._files = [folder / f"{name}.txt" for name in NAMES]
        members = [
            Member(
                name=one.name,
                role="party",
                address=f"{hosts.addresses[one.name]}:7000",
                fingerprint=one.fingerprint,
            )
            for one in identities(folder, *NAMES)
        ]
        Federation(members).write(folder / "federation.toml")
        self._running = [self._start(folder, rank, stack) for rank in range(3)]

    def _start(self, folder, rank, stack):
        env = {"OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": "3"}
        env["RENDEZVOUS"] = f"tls://{folder}/federation.toml"
        env["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        command = [sys.executable, "-P", "-m", TASKS, "join and count", "1", str(3 * BACK)]
        with self._files[rank].open("w") as said:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.hosts.space(NAMES[rank]), *command],
                env={**os.environ, **env},
                stdout=said,
                stderr=subprocess.PIPE,
                text=True,
            )
        stack.callback(process.communicate)
        stack.callback(process.kill)
        return process

    def go_on(self, rounds=20):
        """Returns once each has counted further."""
        before = self._counts()
        for rank in range(3):
            wait_until(
                lambda rank=rank: (
                    self._counts()[rank] >= before[rank] + rounds
                    or self._running[rank].poll() is not None
                )
            )
            assert self._running[rank].poll() is None, self._running[rank].communicate()[1]

    def kill(self, rank):
        os.kill(self._running[rank].pid, signal.SIGKILL)

    def last_words(self, rank):
        """Returns the last line that a party says when it ends by itself."""
        words = self._running[rank].communicate(timeout=PATIENCE)[1].splitlines()[-1]
        assert self._running[rank].returncode == 1
        return words

    def _counts(self):
        return [len(file.read_text().splitlines()) for file in self._files]


@pytest.fixture
def parties(tmp_path):
    with ExitStack() as stack:
        found = Parties(tmp_path, stack.enter_context(Hosts(NAMES)), stack)
        found.go_on()
        yield found


@pytest.mark.parametrize("seconds", [3.0, 14.0])
@pytest.mark.parametrize("who", [0, 2])
def test_a_party_whose_cable_is_out_for_some_seconds_goes_on(parties, who, seconds):
    """Soon the connections themselves are still there; later they were broken off and dialled."""
    parties.hosts.pull(NAMES[who])
    time.sleep(seconds)  # that is what happens to it
    parties.hosts.plug(NAMES[who])
    parties.go_on()


def test_a_party_that_stays_away_is_named_by_all_others_in_time(parties):
    parties.hosts.pull("p2")
    begin = time.monotonic()
    for rank in (0, 1):
        assert parties.last_words(rank).startswith("party 2 ")
    assert BACK < time.monotonic() - begin < NAMED
    assert parties.last_words(2).startswith(("party 0 ", "party 1 "))


def test_a_host_that_vanishes_and_comes_back_without_its_process_is_named(parties):
    """Its connections are half open: nobody was told that they ended."""
    parties.hosts.pull("p1")
    parties.kill(1)
    begin = time.monotonic()
    parties.hosts.plug("p1")
    for rank in (0, 2):
        assert parties.last_words(rank).startswith("party 1 ")
    assert time.monotonic() - begin < NAMED


def test_two_parties_that_lose_each_other_are_named(parties):
    parties.hosts.part("p1", "p2")
    begin = time.monotonic()
    said = {parties.last_words(rank)[:8] for rank in range(3)}
    assert said <= {"party 1 ", "party 2 "}
    assert time.monotonic() - begin < NAMED


def test_a_slow_link_makes_a_run_slow(parties):
    parties.hosts.slow_down("p2", "8kbit")
    parties.go_on()
