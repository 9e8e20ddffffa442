"""ABY3's three servers on this machine, each a process of its own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.instruments.ports import free_addresses

SERVERS = ("server0", "server1", "server2")


@dataclass(frozen=True)
class Players:
    """Servers that run, the configuration that leads to them, and their processes, in order."""

    config: Any
    pids: list[int]


@contextmanager
def local_players() -> Iterator[Players]:
    """Yields servers as `pea players` runs them, until the block ends; they print nothing here.

    Their ports are open, since packets of an emulated network come in by another device than `lo`.
    """
    import tfe_ext
    from tfe_ext.players.launch import IDLE_TIMEOUT, running
    from tfe_ext.players.player import OPEN
    from tfe_ext.streams.choice import load_for_players

    load_for_players()
    with TemporaryDirectory(prefix="players-") as folder:
        file = Path(folder) / "players.json"
        file.write_text(json.dumps(dict(zip(SERVERS, free_addresses(len(SERVERS)), strict=True))))
        given = (str(file), str(IDLE_TIMEOUT), OPEN)
        with (
            running(SERVERS, {}, *given, shows_output=False) as found,
            tfe_ext.remote_config(file) as config,
        ):
            yield Players(config, [found[name].pid for name in SERVERS])
