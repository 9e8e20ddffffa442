"""The example of Flower, on a SuperLink with TLS and SuperNodes that authenticate, on loopback."""

import json
import os
import subprocess
import time

import pytest

import fl
from tests.helpers.federated.flower import Deployment
from tests.helpers.paths import ROOT
from tests.helpers.patience import wait_until

FLWR_PYTHON = os.environ.get("FLWR_PYTHON")
NODES = 5
DIGITS = ROOT / "examples" / "flower" / "digits"
pytestmark = [
    pytest.mark.skipif(FLWR_PYTHON is None, reason="FLWR_PYTHON names no interpreter that has flwr")
]


@pytest.fixture
def deployment(tmp_path):
    found = Deployment(str(FLWR_PYTHON), tmp_path, NODES)
    try:
        found.link()
        for node in range(NODES):
            found.register(node)
            found.node(node)
        yield found
    finally:
        found.end()


def report(folder) -> dict:
    path = folder / "report.json"
    return json.loads(path.read_text()) if path.exists() else {}


@pytest.mark.long
def test_a_deployment_learns_digits_with_the_keys_of_its_supernodes(deployment, tmp_path):
    deployment.run(DIGITS, fl_rounds=2, fl_peers=str(deployment.peers), fl_folder=str(tmp_path))
    wait_until(lambda: report(tmp_path))
    found = report(tmp_path)
    assert found["keys"] == {str(k): "the engine" for k in range(NODES)}
    assert [round["included"] for round in found["history"]] == [list(range(NODES))] * 2
    assert found["history"][-1]["accuracy"] > 0.7


@pytest.mark.long
def test_a_supernode_that_is_killed_in_a_round_is_left_out_and_comes_back(deployment, tmp_path):
    deployment.run(DIGITS, fl_rounds=2, fl_peers=str(deployment.peers), fl_folder=str(tmp_path))
    wait_until(lambda: "Sent successfully" in deployment.log("node-3"))
    deployment.kill("node-3")
    time.sleep(1)
    deployment.node(3)
    wait_until(lambda: report(tmp_path))
    first, second = report(tmp_path)["history"]
    assert "3" in first["refused"]
    assert first["included"] == [0, 1, 2, 4]
    assert second["included"] == list(range(NODES))


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
