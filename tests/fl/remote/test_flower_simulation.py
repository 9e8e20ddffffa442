"""Flower's simulation of an app: one host has all nodes, and an index what the app imports."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from benchmarks.instruments.flower import Deployment
from tests.helpers.paths import ROOT
from tests.helpers.patience import wait_until

FLWR_PYTHON = os.environ.get("FLWR_PYTHON")
NODES = 5


class Simulation(Deployment):
    """A SuperLink that simulates its nodes; what the app needs is installed for each run.

    The app's own dependency, this project, is a wheel made of the checkout. Further places of
    wheels may be named in UV_FIND_LINKS.
    """

    def __init__(self, folder: Path) -> None:
        wheels = folder / "wheels"
        places = ",".join(filter(None, (str(wheels), os.environ.get("UV_FIND_LINKS"))))
        settings = {
            "UV_FIND_LINKS": places,
            "UV_CACHE_DIR": str(folder / "cache"),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        super().__init__(str(FLWR_PYTHON), folder, NODES, settings)
        del self.environment["PYTHONPATH"]
        made = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", str(wheels))
        subprocess.run([*made, str(ROOT)], check=True)
        for node in range(NODES):
            shutil.copy(folder / f"node-{node}", self.peers / str(node))

    def begin(self) -> None:
        """Starts the SuperLink, and says how many nodes it is to simulate."""
        host, port = self.address.split(":")
        self._start(
            "link",
            "flower-superlink",
            *("--insecure", "--simulation", "--host", host, "--port", port),
        )
        self._configure("insecure = true")
        counts = ("--num-supernodes", str(NODES), "--client-resources-num-cpus", "1")
        self.flwr("federation", "simulation-config", *counts)


@pytest.mark.long
@pytest.mark.skipif(FLWR_PYTHON is None, reason="FLWR_PYTHON names no interpreter that has flwr")
def test_a_simulation_installs_what_the_app_needs_and_learns_digits(tmp_path):
    if subprocess.call([str(FLWR_PYTHON), "-c", "import ray"]) != 0:
        pytest.skip("FLWR_PYTHON names no interpreter that has flwr[simulation]")
    app, found = tmp_path / "digits", tmp_path / "run" / "report.json"
    shutil.copytree(ROOT / "examples" / "flower" / "digits", app)
    with (app / "pyproject.toml").open("a") as file:
        file.write(f'\n[tool.uv]\nconstraint-dependencies = ["torch=={version("torch")}"]\n')
    simulation = Simulation(tmp_path / "engine")
    try:
        simulation.begin()
        given = {"fl_peers": str(simulation.peers), "fl_folder": str(found.parent)}
        simulation.run(app, fl_rounds=2, **given)
        wait_until(lambda: found.exists() and len(json.loads(found.read_text())["history"]) == 2)
        report = json.loads(found.read_text())
    finally:
        simulation.end()
    assert report["keys"] == {str(client): "files" for client in range(NODES)}
    assert [round["included"] for round in report["history"]] == [list(range(NODES))] * 2
    assert report["history"][-1]["accuracy"] > 0.7
    shutil.rmtree(simulation.folder, ignore_errors=True)  # the app's environment is large
