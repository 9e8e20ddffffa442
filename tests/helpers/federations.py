"""Hosts of a federation, all in this process, and the connections between them."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from extensions.runs.processes.credentials import federation_of
from extensions.transport import Identity, Listener, Local, Mesh, connect_to, make
from extensions.transport.reconnecting import SILENCE, Reconnector
from tests.helpers.cable import Cable
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
            stack.enter_context(Listener(local, place, ["run"]))
            for local, place in zip(locals_, places, strict=True)
        ]
        for door in doors:
            door.begin(RUN)
        found: list[dict[int, Any]] = [{} for _ in own]
        for high in range(parties):
            for low in range(high):
                member = federation.members[low]
                dialled = connect_to(locals_[high], member, "run", RUN, seconds=PATIENCE)
                found[high][low] = dialled.connection
                taken = doors[low].take(federation.members[high], "run", PATIENCE)
                found[low][high] = taken.connection
    return [Mesh(rank, found[rank]) for rank in range(parties)]


@dataclass
class Cabled:
    """Two parties, the cable between them, and what belongs to their connection.

    Attributes:
        cable: from party 1 to the door of party 0.
        locals: their ends, and that of a third member.
        doors: of the two.
        meshes: likewise.
        returning: likewise.
    """

    cable: Cable
    locals: list[Local]
    doors: list[Listener]
    meshes: list[Mesh] = field(default_factory=list)
    returning: list[Reconnector] = field(default_factory=list)

    def give_up(self) -> None:
        """Their connection ends, for good."""
        for mesh in self.meshes:
            mesh.stop_reconnecting()
        self.cable.is_out = True
        self.cable.reset()

    def dial(
        self, rank: int, seconds: float, over: threading.Event | None = None, run: bytes = RUN
    ) -> Any:
        """Returns a connection to party 0, through the cable."""
        end, member = self.locals[rank], self.locals[0].member
        return connect_to(end, member, "run", run, seconds=seconds, over=over).connection


@contextmanager
def cabled(folder: Path, seconds: float = PATIENCE, silence: float = SILENCE) -> Iterator[Cabled]:
    """Yields two parties whose connection is dialled again once it breaks."""
    own, places = identities(folder, "p0", "p1", "p2"), listeners(3)
    with ExitStack() as stack:
        cable = stack.enter_context(Cable(places[0].getsockname()))
        federation = federation_of(own, [cable.listener, *places[1:]])
        locals_ = [Local(one, federation) for one in own]
        places.pop().close()
        doors = [
            stack.enter_context(Listener(local, place, ["run"]))
            for local, place in zip(locals_, places, strict=False)
        ]
        found = Cabled(cable, locals_, doors)
        doors[0].begin(RUN)
        dialling = Reconnector({0: partial(found.dial, 1)}, seconds, silence)
        answering = Reconnector({}, seconds, silence)
        dialled = found.dial(1, PATIENCE)
        taken = doors[0].take(locals_[1].member, "run", PATIENCE)
        found.returning += [answering, dialling]
        found.meshes += [
            Mesh(0, {1: taken.connection}, answering),
            Mesh(1, {0: dialled}, dialling),
        ]
        doors[0].hand_on(
            "run",
            lambda one: answering.give(federation.rank_of(one.member), one.connection),
        )
        stack.callback(lambda: [mesh.close() for mesh in found.meshes])
        yield found
