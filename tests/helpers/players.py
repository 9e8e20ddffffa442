"""Players of TF Encrypted as a user starts them: processes of the `pea players` command."""

import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from extensions.data.datasets import load, split_among, write_parts
from tests.helpers.commands import Command, started

_LISTENS = re.compile(r"player (?P<name>\w+) listens on port \d+, process (?P<process>\d+)$")
SERVERS = ("server0", "server1", "server2")


def free_addresses(names: Sequence[str]) -> dict[str, str]:
    """Addresses on this machine that nobody listens at."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in names]
        ports = [one.getsockname()[1] for one in sockets]
    return {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}


def write(file: Path, addresses: Mapping[str, str]) -> Path:
    """Writes the addresses as the command reads them; returns the file."""
    file.write_text(json.dumps(addresses))
    return file


def digits(folder: Path) -> Path:
    """Writes a part of the digits for each server, as `pea split` does; returns the folder."""
    write_parts(split_among(load("digits", None, 0), len(SERVERS)), folder)
    return folder


Players = tuple[Command, dict[str, int]]
"""The command, and the processes that it started by name."""


@contextmanager
def running_players(file: Path, *options: object) -> Iterator[Players]:
    """The command, once all its players listen, and their processes by name."""
    with started("players", "--players", file, *options) as command:
        count = 1 if "--player" in options else len(json.loads(file.read_text()))
        processes: dict[str, int] = {}
        for line in command.process.stdout:
            if found := _LISTENS.match(line):
                processes[found["name"]] = int(found["process"])
            if len(processes) == count:
                break
        else:
            pytest.fail(f"the command ended: {command.finish().stderr}")
        yield command, processes
