"""ABY3's three servers on this machine, each a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.instruments.ports import free_addresses

SERVERS = ("server0", "server1", "server2")
_PLAYERS = (
    "import sys; from extensions.runs.processes import die_with; die_with(int(sys.argv.pop(1))); "
    "from extensions.cli.main import main; main()"
)
"""`pea players`, which ends with the process that started it."""


@dataclass(frozen=True)
class Players:
    """Servers that run, the configuration that leads to them, and the process that started them."""

    config: Any
    command: int

    @property
    def pids(self) -> list[int]:
        """The servers' process ids, in their order."""
        found = {}
        threads = Path(f"/proc/{self.command}/task").glob("*/children")
        for pid in (int(child) for thread in threads for child in thread.read_text().split()):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            found[next(name for name in SERVERS if name in arguments)] = pid
        return [found[name] for name in SERVERS]


@contextmanager
def local_players() -> Iterator[Players]:
    """Yields servers that `pea players` runs until the block ends."""
    import tfe_ext

    with TemporaryDirectory(prefix="players-") as folder:
        file = Path(folder) / "players.json"
        file.write_text(json.dumps(dict(zip(SERVERS, free_addresses(len(SERVERS)), strict=True))))
        path = os.pathsep.join(part or os.getcwd() for part in sys.path)
        command = subprocess.Popen(
            [sys.executable, "-c", _PLAYERS, str(os.getpid()), "players", "--players", str(file)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            with tfe_ext.remote_config(file) as config:
                yield Players(config, command.pid)
        finally:
            command.terminate()
            command.wait()
