"""Hosts of a federation, all in this process, and the connections between them."""

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from extensions.runs.processes.seats import federation_of
from extensions.transport import Door, Identity, Local, Mesh, dial, make
from tests.helpers.patience import PATIENCE

RUN = b"one run of these parties, no more"[:32]


def identities(folder: Path, *names: str, days: float = 1) -> list[Identity]:
    """Returns new identities of these names."""
    return [make(name, folder / f"{name}.pem", days) for name in names]


def listeners(number: int) -> list[socket.socket]:
    """Returns so many sockets that listen on loopback."""
    return [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]


def at_once(*tasks: Callable[[], Any]) -> list[Any]:
    """Returns what each returned in a thread of its own, or the exception that it raised."""
    results: list[Any] = [None] * len(tasks)

    def run(number: int) -> None:
        try:
            results[number] = tasks[number]()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(each,)) for each in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return results


def meshes(folder: Path, parties: int) -> list[Mesh]:
    """Returns the meshes of so many parties that met over loopback."""
    own = identities(folder, *(f"p{rank}" for rank in range(parties)))
    places = listeners(parties)
    federation = federation_of(own, places)
    locals_ = [Local(one, federation) for one in own]
    with ExitStack() as stack:
        doors = [
            stack.enter_context(Door(local, place, ["run"]))
            for local, place in zip(locals_, places, strict=True)
        ]
        for door in doors:
            door.begin(RUN)
        found: list[dict[int, Any]] = [{} for _ in own]
        for high in range(parties):
            for low in range(high):
                member = federation.members[low]
                dialled = dial(locals_[high], member, "run", RUN, seconds=PATIENCE)
                found[high][low] = dialled.connection
                taken = doors[low].take(federation.members[high], "run", PATIENCE)
                found[low][high] = taken.connection
    return [Mesh(rank, found[rank]) for rank in range(parties)]
