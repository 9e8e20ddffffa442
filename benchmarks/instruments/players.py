"""ABY3's three servers on this machine, each a process of its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.instruments.ports import free_addresses
from extensions.errors import PeaError

SERVERS = ("server0", "server1", "server2")
_PLAYERS = (
    "import sys; from extensions.runs.processes import die_with; die_with(int(sys.argv.pop(1))); "
    "from extensions.cli.main import main; main()"
)
"""`pea players`, which ends with the process that started it."""
_LISTENS = re.compile(r"player (?P<name>\w+) listens on port \d+, process (?P<process>\d+)$")


@dataclass(frozen=True)
class Players:
    """Servers that run, the configuration that leads to them, and their processes, in order."""

    config: Any
    pids: list[int]


@contextmanager
def local_players() -> Iterator[Players]:
    """Yields servers that `pea players` runs until the block ends.

    Their ports are open, since packets of an emulated network come in by another device than `lo`.
    """
    import tfe_ext

    with TemporaryDirectory(prefix="players-") as folder:
        file = Path(folder) / "players.json"
        file.write_text(json.dumps(dict(zip(SERVERS, free_addresses(len(SERVERS)), strict=True))))
        path = os.pathsep.join(part or os.getcwd() for part in sys.path)
        command = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _PLAYERS,
                str(os.getpid()),
                "players",
                "--players",
                str(file),
                "--insecure-open-port",
            ],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            found = _processes(command)
            with tfe_ext.remote_config(file) as config:
                yield Players(config, [found[name] for name in SERVERS])
        finally:
            command.terminate()
            command.communicate()


def _processes(command: subprocess.Popen[str]) -> dict[str, int]:
    """Returns the players' process ids by name, once all of them listen."""
    assert command.stdout is not None
    found: dict[str, int] = {}
    for line in command.stdout:
        if told := _LISTENS.match(line):
            found[told["name"]] = int(told["process"])
        if len(found) == len(SERVERS):
            return found
    raise PeaError("The players ended before all of them listened.")
