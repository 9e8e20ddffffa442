"""Flower's apps on a SuperLink with TLS and SuperNodes that authenticate, on loopback."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import fl
from benchmarks.instruments.flower import Deployment
from fl.remote.run import INTERRUPTED
from tests.helpers.paths import ROOT
from tests.helpers.patience import wait_until

FLWR_PYTHON = os.environ.get("FLWR_PYTHON")
NODES, KILLED = 5, 3
EXAMPLES = ROOT / "examples" / "flower"
HELD = ROOT / "tests" / "helpers" / "federated" / "held_app"
STAGES = ("model", "begin", "keys", "sealed", "survivors", "consents")
"""What a client gets in a round of masked aggregation, in this order."""
LATE = ("survivors", "consents")
pytestmark = [
    pytest.mark.skipif(FLWR_PYTHON is None, reason="FLWR_PYTHON names no interpreter that has flwr")
]


class Hooked(Deployment):
    """A deployment whose apps find a folder for files that they and tests leave each other."""

    def __init__(self, folder: Path) -> None:
        self.hooks = folder / "hooks"
        self.hooks.mkdir()
        self.data = Path(os.environ.get("PEA_DATA", folder)).resolve()
        environment = {"FL_HOOKS": str(self.hooks), "PEA_DATA": str(self.data)}
        super().__init__(str(FLWR_PYTHON), folder, NODES, environment)

    def wait(self, hook: str) -> str:
        """Returns what a process of an app wrote into a file, once it is there."""
        path = self.hooks / hook
        wait_until(path.exists, hook)
        return path.read_text()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    found = Hooked(tmp_path_factory.mktemp("flower"))
    try:
        found.begin()
        yield found
    finally:
        found.end()


def report(folder) -> dict:
    path = folder / "report.json"
    return json.loads(path.read_text()) if path.exists() else {}


@pytest.mark.long
def test_a_deployment_learns_digits_with_the_keys_of_its_supernodes(deployment, tmp_path):
    deployment.run(
        EXAMPLES / "digits", fl_rounds=2, fl_peers=str(deployment.peers), fl_folder=str(tmp_path)
    )
    wait_until(lambda: report(tmp_path))
    found = report(tmp_path)
    assert found["keys"] == {str(k): "the engine" for k in range(NODES)}
    assert [round["included"] for round in found["history"]] == [list(range(NODES))] * 2
    assert found["history"][-1]["accuracy"] > 0.7


@pytest.mark.long
def test_whoever_is_killed_at_any_stage_the_others_go_on(deployment, tmp_path):
    """A SuperNode at each stage of a round, and then the server in one.

    No client trains twice in a round, also where the server has lost its process.
    """
    hooks, everybody = deployment.hooks, set(range(NODES))
    given = {"fl_peers": str(deployment.peers), "fl_folder": str(tmp_path)}
    given["fl_rounds"] = last = len(STAGES) + 2
    hold = hooks / f"hold-{KILLED}"
    hold.write_text("2")  # a greeting comes before the first round's model
    deployment.run(HELD, **given)
    for number, stage in enumerate(STAGES, 1):
        held_next = number + 1 if number < len(STAGES) else STAGES.index("sealed") + 1
        deployment.wait(f"held-{KILLED}")
        deployment.kill(f"node-{KILLED}")
        round = json.loads(deployment.wait(f"round-{number}.json"))
        assert round["failure"] == "", stage
        assert set(round["included"]) == everybody - (set() if stage in LATE else {KILLED}), stage
        assert stage in LATE or str(KILLED) in round["refused"], stage
        wait_until(lambda: KILLED not in deployment.connected())
        hold.write_text(str(held_next))
        (hooks / f"held-{KILLED}").unlink()
        deployment.node(KILLED)
        wait_until(lambda: KILLED in deployment.connected())
        (hooks / f"go-{number + 1}").touch()
    deployment.wait(f"held-{KILLED}")
    os.kill(int((hooks / "server").read_text()), signal.SIGKILL)
    (hooks / f"free-{KILLED}").touch()
    (hooks / f"go-{last + 1}").touch()
    deployment.run(HELD, **given)
    wait_until(lambda: len(report(tmp_path).get("history", [])) == last)
    history = report(tmp_path)["history"]
    assert [round["failure"] for round in history[-2:]] == [INTERRUPTED, ""]
    assert set(history[-1]["included"]) == everybody
    for client in everybody:
        trained = (hooks / f"trained-{client}").read_text().split()
        assert len(trained) == len(set(trained)), "it trained twice for one round"
        assert trained[-2:] == [str(last - 1), str(last)]


@pytest.mark.long
def test_mnist_is_learnt_from_its_files(deployment, tmp_path):
    if not (deployment.data / "mnist").is_dir():
        pytest.skip("PEA_DATA names no folder with MNIST's files")
    deployment.run(
        EXAMPLES / "mnist", fl_rounds=1, fl_peers=str(deployment.peers), fl_folder=str(tmp_path)
    )
    wait_until(lambda: report(tmp_path))
    (round,) = report(tmp_path)["history"]
    assert round["included"] == list(range(NODES))
    assert round["accuracy"] > 0.8


def test_the_extra_says_what_is_missing():
    """An environment without flwr names the extra, and one with it imports ours."""
    ran = subprocess.run(
        [str(FLWR_PYTHON), "-c", "import fl.flower; print(fl.flower.server_app.__name__)"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert ran.stdout.strip() == "server_app", ran.stderr
    assert fl.__version__
