"""The ways on real processes: a SuperLink with TLS, and SuperNodes that authenticate, on loopback.

`measure` runs in any Python; the app that it writes runs in one that has flwr.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.federated.flower.setting import HOUR, Setting
from benchmarks.instruments.flower import Deployment, until

NEEDED = ("benchmarks.federated.flower.deployed", "benchmarks.federated.flower.ways")
_PROJECT = """[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "round-app"
version = "0.1.{number}"
description = "Rounds that are measured."
license = "Apache-2.0"

[tool.hatch.build.targets.wheel]
packages = ["round_app"]

[tool.flwr.app]
publisher = "pea"

[tool.flwr.app.components]
serverapp = "round_app:server_app"
clientapp = "round_app:client_app"

[tool.flwr.app.config]
fl-peers = "{peers}"
"""
_APP = """from benchmarks.federated.flower import deployed, ways
from benchmarks.federated.flower.setting import Setting

SETTING = Setting(**{setting!r})
server_app = deployed.server_app(SETTING, {out!r})
client_app = ways.CLIENTS[SETTING.way](SETTING)
"""


def server_app(setting: Setting, out: str) -> Any:
    """Returns the server's app, which writes down what came of its rounds; needs flwr."""
    from flwr.serverapp import ServerApp

    from benchmarks.federated.flower import ways

    course = ways.Course()
    inner, app = ways.SERVERS[setting.way](setting, course), ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        inner(grid, context)
        found = {"seconds": course.seconds, "included": course.included}
        written = Path(f"{out}.part")
        written.write_text(json.dumps(found))
        written.rename(out)

    return app


def measure(
    python: str, settings: Sequence[Setting], *, copies: bool = False
) -> Iterator[dict[str, Any]]:
    """Yields what the rounds of each setting took on one deployment, of as many nodes as clients.

    Args:
        python: an interpreter that has flwr.
        settings: of one number of clients.
        copies: whether client apps are copies of one process that has imported what they need.
    """
    (clients,) = {setting.clients for setting in settings}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        deployed = Deployment(python, folder, clients, copied=NEEDED if copies else ())
        stack.callback(deployed.end)
        deployed.begin()
        for number, setting in enumerate(settings):
            yield _measured(deployed, setting, number)


def _measured(deployed: Deployment, setting: Setting, number: int) -> dict[str, Any]:
    app, out = deployed.folder / f"app-{number}", deployed.folder / f"out-{number}.json"
    (app / "round_app").mkdir(parents=True)
    project = _PROJECT.format(number=number, peers=deployed.peers)
    (app / "pyproject.toml").write_text(project)
    text = _APP.format(setting=asdict(setting), out=str(out))
    (app / "round_app" / "__init__.py").write_text(text)
    of_clients = [name for name in deployed.processes if name != "link"]

    def taken() -> tuple[float, float]:
        return sum(map(deployed.seconds, of_clients)), deployed.seconds("link")

    before = taken()
    deployed.run(app)
    until(out.exists, f"the end of {setting}", HOUR)
    client, server = (now - then for now, then in zip(taken(), before, strict=True))
    found = json.loads(out.read_text())
    return {
        "seconds": found["seconds"],
        "included": [len(each) for each in found["included"]],
        "client": client / setting.clients / setting.rounds,
        "server": server / setting.rounds,
    }
