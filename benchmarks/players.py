"""ABY3's three servers as processes of their own on this machine, for benchmarks."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.inverse_sqrt.ports import free_addresses

_PEA = "from extensions.cli import main; main()"
SERVERS = ("server0", "server1", "server2")


@contextmanager
def local_players() -> Iterator[Any]:
    """Yields the configuration of servers that `pea players` runs until the block ends."""
    import tfe_ext

    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder) / "players.json", Path(folder) / "log"
        file.write_text(json.dumps(dict(zip(SERVERS, free_addresses(len(SERVERS)), strict=True))))
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        with log.open("w") as output:
            command = subprocess.Popen(
                [sys.executable, "-c", _PEA, "players", "--config", str(file)],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            with tfe_ext.remote_config(file) as config:
                yield config
        finally:
            command.terminate()
            command.wait()
