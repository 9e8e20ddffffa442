"""Every command of the tutorial, each role on a host and in a folder of its own."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from extensions.runs.budget import path_of, read
from tests.helpers.hosts_apart import Hosts, needs_root
from tests.helpers.pages import Block, blocks_of, prints_as_shown
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.roles import HOSPITALS, write_tables

CRYPTEN, _, ABY3 = (
    (ROOT / "docs" / "tutorials" / "three_hospitals.md")
    .read_text()
    .partition("\n## The same with ABY3\n")
)
KEPT = "2.0\ncheckpoint_every = 1\nsteps = "

USER = 10001
CONFINED = f"""
mount -t tmpfs -o mode=755 none /srv
mkdir /srv/pea
mount --bind . /srv/pea
mount -t tmpfs -o noexec,nosuid,nodev,mode=1777 none /tmp
mount -o remount,bind,ro /
cd /srv/pea
rights=-all,+dac_read_search
exec setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs \\
    --bounding-set=$rights --inh-caps=$rights --ambient-caps=$rights bash -ec "$0"
"""
"""As the containers and units of examples/deployment: a user without rights, a root that is read
only. This one may read all files, since Python may lie where root alone may look."""

pytestmark = [pytest.mark.long, needs_root]


class Operators:
    """Four hosts and who types at them; what they export stays, and so do their folders.

    All that they type runs in their folder as a user who may write nowhere else.
    """

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self._hosts = hosts
        self.folder = folder
        self._said: dict[str, str] = dict.fromkeys(hosts.addresses, "")
        self._known: dict[str, str] = {}
        for name in hosts.addresses:
            (folder / name).mkdir()
            os.chown(folder / name, USER, USER)

    def start(self, host: str, text: str) -> subprocess.Popen[str]:
        """Returns the shell that types the text at the host."""
        own = "/srv/pea"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        home = {"HOME": own, "XDG_STATE_HOME": own, "XDG_CACHE_HOME": own, "PATH": path}
        exported = self._said[host]
        lines = re.findall(r"^export .*\n", text, flags=re.MULTILINE)
        self._said[host] += "".join(lines)
        return subprocess.Popen(
            [
                *("ip", "netns", "exec", self._hosts.space(host)),
                *("unshare", "--mount", "bash", "-ec", CONFINED, exported + text),
            ],
            cwd=self.folder / host,
            env={**os.environ, **home, **self._known},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def type(self, step: Block) -> dict[str, str]:
        """Returns what each host printed for a step that all do at once, with status 0."""
        typing = {host: self.start(host, step.text) for host in step.hosts}
        printed = {}
        for host, shell in typing.items():
            out, err = shell.communicate(timeout=PATIENCE)
            assert shell.returncode == 0, f"{host}: {step.text}\n{out}\n{err}"
            printed[host] = out
            assert prints_as_shown(step, out), f"{host}: {step.text}\n{out}"
        if "pea keys" in step.text:
            for host, out in printed.items():
                _, self._known[host.upper()] = out.split()
        return printed


@pytest.fixture
def operators(tmp_path: Path) -> Iterator[Operators]:
    with Hosts([*HOSPITALS, "laboratory"]) as hosts:
        operators = Operators(hosts, tmp_path)
        write_tables(tmp_path)
        yield operators


@contextmanager
def staying(
    operators: Operators, step: Block, *hosts: str
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """A block that goes on until it is stopped, at its hosts or at some of them.

    Players are there once they say so.
    """
    shells = {host: operators.start(host, step.text) for host in hosts or step.hosts}
    try:
        for host, shell in shells.items():
            assert shell.stdout is not None
            assert shell.stderr is not None
            if "pea players" in step.text:
                said = any(" listens on port " in line for line in shell.stdout)
                assert said, f"{host}: {step.text}\n{shell.stderr.read()}"
        yield shells
    finally:
        for shell in shells.values():
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
            shell.communicate(timeout=PATIENCE)


def prepared(operators: Operators, part: str, **changes: str) -> tuple[Block, list[Block], Block]:
    """Types all before the run; returns what stays, the blocks after it, and the last."""
    page = blocks_of(part)
    stays = next(i for i, step in enumerate(page) if step.kind == "stays")
    for step in page[:stays]:
        if step.kind == "file":
            text = step.text
            for old, new in changes.items():
                text = re.sub(rf"^{old} = .*$", f"{old} = {new}", text, flags=re.MULTILINE)
            for host in step.hosts:
                (operators.folder / host / step.file).write_text(text)
        else:
            printed = operators.type(step)
            if "pea federation" in step.text:
                digests = {re.findall(r"federation (\w+)", out)[-1] for out in printed.values()}
                assert len(digests) == 1, "what they compare over the telephone"
    (again,) = [step for step in page if step.kind == "again"]
    return page[stays], [s for s in page[stays + 1 :] if s.kind == "typed"], again


def opened(operators: Operators, host: str, model: str) -> bytes:
    return (operators.folder / host / model / "model.npz").read_bytes()


def test_the_page_as_it_is_typed(operators):
    """Once with CrypTen and then, with the same patients and their budgets, with ABY3."""
    dealer, after, _ = prepared(operators, CRYPTEN)
    with staying(operators, dealer):
        for step in after:
            printed = operators.type(step)
            if "pea party" in step.text:
                assert all("epsilon" in out for out in printed.values())
    assert len({opened(operators, host, "model") for host in HOSPITALS}) == 1
    south = operators.folder / "south"
    with (south / "predictions.csv").open() as file:
        predicted = [row["prediction"] for row in csv.DictReader(file)]
    patients = (south / "patients.csv").read_text().splitlines()[1:]
    assert len(predicted) == len(patients)
    assert set(predicted) <= {"yes", "no"}
    assert not list((operators.folder / "laboratory").rglob("*.npz"))
    players, (train, release), _ = prepared(operators, ABY3)
    with staying(operators, players):
        operators.type(train)
    with staying(operators, dealer):
        operators.type(release)
    assert len(read(path_of(south / "patients.csv")).entries) == 2
    assert len({opened(operators, host, "model-2") for host in HOSPITALS}) == 1
    assert not list((operators.folder / "laboratory").rglob("*.npz"))


def test_a_host_that_dies_is_named_and_the_run_resumed(operators):
    dealer, after, again = prepared(operators, CRYPTEN, count_noise=f"{KEPT}400")
    run = next(step for step in after if "pea party" in step.text)
    with staying(operators, dealer):
        shells = {host: operators.start(host, run.text) for host in HOSPITALS}
        kept = operators.folder / "west" / "run-1"
        wait_until(lambda: kept.is_dir() and any(kept.iterdir()))
        time.sleep(0.5)
        os.killpg(shells["west"].pid, signal.SIGKILL)
        for host in HOSPITALS[:2]:
            _, err = shells[host].communicate(timeout=PATIENCE)
            assert shells[host].returncode == 1
            assert "party 2 " in err, err
        shells["west"].communicate(timeout=PATIENCE)
        for host, out in operators.type(again).items():
            assert "epsilon" in out, host


def test_a_player_that_dies_is_named_and_the_run_resumed(operators):
    prepared(operators, CRYPTEN)
    players, after, again = prepared(operators, ABY3, count_noise=f"{KEPT}100")
    run = next(step for step in after if "pea train" in step.text)
    with staying(operators, players) as shells:
        training = operators.start("laboratory", run.text)
        kept = operators.folder / "west" / "run-2"  # the last to write
        wait_until(lambda: training.poll() is not None or any(kept.glob("*.checkpoint")))
        os.killpg(shells["west"].pid, signal.SIGKILL)
        _, err = training.communicate(timeout=PATIENCE)
        assert training.returncode == 1
        assert "player server2 " in err, err
        with staying(operators, players, "west"):
            operators.type(again)
            laboratory = operators.folder / "laboratory"
            assert json.loads((laboratory / "report.json").read_text())["resumed_from"]
            assert not (laboratory / "run-2").exists()
