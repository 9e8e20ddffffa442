"""Every command of docs/three_hospitals.md, each role on a host and in a folder of its own."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer

from tests.helpers.hosts_apart import Hosts, needs_root
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE, wait_until

TUTORIAL = (ROOT / "docs" / "three_hospitals.md").read_text()
HOSPITALS = ["north", "south", "west"]
COLUMNS = {"radius": 0, "texture": 1, "smoothness": 4, "concavity": 6}

pytestmark = [pytest.mark.long, needs_root]


@dataclass(frozen=True)
class Step:
    """A block of the page: what is typed, or the text of a file, and at which hosts."""

    kind: str
    hosts: tuple[str, ...]
    text: str
    file: str = ""


def steps() -> list[Step]:
    pattern = r"<!-- (?:file: (\S+) )?(|stays |again )at: ([a-z ]+) -->\n```\w+\n(.*?)```"
    return [
        Step("file" if file else kind.strip() or "typed", tuple(hosts.split()), text, file)
        for file, kind, hosts, text in re.findall(pattern, TUTORIAL, flags=re.DOTALL)
    ]


class Operators:
    """Four hosts and who types at them; what they export stays, and so do their folders."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self._hosts = hosts
        self.folder = folder
        self._said: dict[str, str] = dict.fromkeys(hosts.addresses, "")
        self._known: dict[str, str] = {}
        for name in hosts.addresses:
            (folder / name).mkdir()

    def start(self, host: str, text: str) -> subprocess.Popen[str]:
        """Returns the shell that types the text at the host."""
        own = str(self.folder / host)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        home = {"HOME": own, "XDG_STATE_HOME": own, "XDG_CACHE_HOME": own, "PATH": path}
        exported = self._said[host]
        lines = re.findall(r"^export .*\n", text, flags=re.MULTILINE)
        self._said[host] += "".join(lines)
        return subprocess.Popen(
            ["ip", "netns", "exec", self._hosts.space(host), "bash", "-ec", exported + text],
            cwd=own,
            env={**os.environ, **home, **self._known},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def type(self, step: Step) -> dict[str, str]:
        """Returns what each host printed for a step that all do at once, with status 0."""
        typing = {host: self.start(host, step.text) for host in step.hosts}
        printed = {}
        for host, shell in typing.items():
            out, err = shell.communicate(timeout=PATIENCE)
            assert shell.returncode == 0, f"{host}: {step.text}\n{out}\n{err}"
            printed[host] = out
        if "pea keys" in step.text:
            for host, out in printed.items():
                name, fingerprint = out.split()
                assert name == host
                self._known[host.upper()] = fingerprint
        return printed


def write_tables(folder: Path) -> None:
    """Writes a third of the tumours of scikit-learn's table at each hospital."""
    x, y = load_breast_cancer(return_X_y=True)
    for rank, name in enumerate(HOSPITALS):
        with (folder / name / "patients.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow([*COLUMNS, "ill"])
            for row, label in zip(x[rank::3], y[rank::3], strict=True):
                table.writerow([*(row[i] for i in COLUMNS.values()), ["yes", "no"][label]])


@pytest.fixture
def operators(tmp_path: Path) -> Iterator[Operators]:
    with Hosts([*HOSPITALS, "laboratory"]) as hosts:
        operators = Operators(hosts, tmp_path)
        write_tables(tmp_path)
        yield operators


@contextmanager
def staying(operators: Operators, step: Step) -> Iterator[subprocess.Popen[str]]:
    """A block that goes on until it is stopped."""
    (host,) = step.hosts
    shell = operators.start(host, step.text)
    try:
        yield shell
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.communicate(timeout=PATIENCE)


def prepared(operators: Operators, **changes: str) -> tuple[Step, list[Step], Step]:
    """Types all before the run; returns the dealer's block, those after it, and the last."""
    page = steps()
    dealer = next(i for i, step in enumerate(page) if step.kind == "stays")
    for step in page[:dealer]:
        if step.kind == "file":
            text = step.text
            for old, new in changes.items():
                text = re.sub(rf"^{old} = .*$", f"{old} = {new}", text, flags=re.MULTILINE)
            for host in step.hosts:
                (operators.folder / host / step.file).write_text(text)
        else:
            printed = operators.type(step)
            if "federation.toml" in step.text:
                digests = {re.findall(r"federation (\w+)", out)[-1] for out in printed.values()}
                assert len(digests) == 1, "what they compare over the telephone"
    (again,) = [step for step in page if step.kind == "again"]
    return page[dealer], [s for s in page[dealer + 1 :] if s.kind == "typed"], again


def test_the_page_as_it_is_typed(operators):
    dealer, after, _ = prepared(operators)
    with staying(operators, dealer):
        for step in after:
            printed = operators.type(step)
            if "pea party" in step.text:
                assert all("epsilon" in out for out in printed.values())
    models = {(operators.folder / host / "model" / "model.npz").read_bytes() for host in HOSPITALS}
    assert len(models) == 1, "the same model at all three"
    south = operators.folder / "south"
    with (south / "predictions.csv").open() as file:
        predicted = [row["prediction"] for row in csv.DictReader(file)]
    patients = (south / "patients.csv").read_text().splitlines()[1:]
    assert len(predicted) == len(patients)
    assert set(predicted) <= {"yes", "no"}
    assert not list((operators.folder / "laboratory").rglob("*.npz"))


def test_a_host_that_dies_is_named_and_the_run_resumed(operators):
    dealer, after, again = prepared(operators, count_noise="2.0\nsteps = 400\ncheckpoint_every = 1")
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
