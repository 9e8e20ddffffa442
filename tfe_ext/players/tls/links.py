"""The links of one host: those that it takes at its open port, and those that it dials."""

import queue
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Self

from extensions.checks import check_address
from extensions.errors import ArgumentError, PeaError
from extensions.transport import Local, Member
from extensions.transport.handshake import Admitted, Terms, answer, dial
from extensions.transport.hello import NO_RUN, Claim, MalformedError
from extensions.transport.lobby import Lobby
from tfe_ext.players.addresses import is_here
from tfe_ext.players.tls.members import members_of
from tfe_ext.players.tls.pump import hand_on, is_over, read

PLAYER, BACK = "player", "back"
"""What links are for: to reach a player, or to be reached by one."""
_HERE = "127.0.0.1"
_PATIENCE = 10.0
_AGAIN = 1.0
_BREATHER = 0.05
_SPARE = 4
"""Links by which one player can reach a client at once, beside those in use."""
_PORT = struct.Struct(">H")
_USED = b"\1"
_ERRORS = (PeaError, OSError, MalformedError)


@dataclass
class _Way:
    """To a client: where players look for it, who waits there, and the number of its links."""

    listener: socket.socket
    wanting: "queue.SimpleQueue[socket.socket]"
    links: int = 0


class _OpenPort(Lobby[Admitted]):
    """Where members come in, and each link begins in a thread of its own."""

    def __init__(
        self,
        listener: socket.socket,
        local: Local,
        begin: Callable[[Admitted], None],
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(listener)
        self._local, self._begin, self._tell = local, begin, tell

    def receive(self, connection: socket.socket) -> Admitted:
        try:
            return answer(self._local, connection, _terms)
        except _ERRORS as error:
            if self.is_open:
                self._tell(str(error))
            raise

    def settle(self, guest: Admitted) -> None:
        self._begin(guest)

    def close(self, guest: Admitted) -> None:
        guest.connection.close()


class Links:
    """The links of a player's host, or of a client's, until the `with` block ends.

    Args:
        local: this host, a server or a client of its federation.
        players: address of each player by its name in the federation; on every host its port is the
            player's, or leads to it.
        port: at which this host's own TensorFlow listens.
        tell: called with why a connection came to nothing.
        here: the loopback address of this host's ends.

    Guarantees:
        Whoever is no server or client of the federation gets no further than one handshake at
        the open port. Links are dialled only to members with the certificates that the
        federation has.

    Raises:
        ArgumentError: this host is no server or client, players have no members, or a port is in
            use.
    """

    def __init__(
        self,
        local: Local,
        players: Mapping[str, str],
        port: int,
        tell: Callable[[str], None],
        here: str = _HERE,
    ) -> None:
        self._local, self._port, self._tell, self._here = local, port, tell, here
        self._members = members_of(local, players)
        self._ports = {name: check_address("players", at)[1] for name, at in players.items()}
        self._ways: dict[int, _Way] = {}
        self._clients, self._change = threading.Lock(), threading.Lock()
        self._over = threading.Event()
        self._open: set[socket.socket] = set()
        self._doors = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.close)
            own = self._local.member
            client = own.role == "client"
            for name, member in self._members.items():
                there = client and _listens(self._here, self._ports[name])  # by a player here
                if name != own.name and not there:
                    self._listen(self._here, self._ports[name], self._dialling(member))
                if client and not (there and is_here(member.address)):
                    for _ in range(_SPARE):
                        self._begin(self._reachable_by, member)
            if own.role == "server":
                listener = self._bound(*check_address("address", own.address))
                port = _OpenPort(listener, self._local, self._take, self._tell)
                self._doors.enter_context(port)
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all links."""
        self._over.set()
        self._doors.close()
        with self._change:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    @staticmethod
    def _bound(host: str, port: int) -> socket.socket:
        try:
            return socket.create_server((host, port))
        except OSError as error:
            raise ArgumentError(
                "players", f"{host}:{port}", "a port that is free on this host", f"{error}."
            ) from error

    def _listen(self, host: str, port: int, take: Callable[[socket.socket], None]) -> socket.socket:
        listener = self._bound(host, port)
        with self._change:
            self._open.add(listener)
        self._begin(self._accept, listener, take)
        return listener

    @contextmanager
    def _ending(self, *connections: socket.socket) -> Iterator[None]:
        """Lets connections end with this, or with the block."""
        with self._change:
            self._open.update(connections)
        try:
            if self._over.is_set():
                raise ConnectionAbortedError("all links have ended")
            yield
        finally:
            with self._change:
                self._open.difference_update(connections)

    def _accept(self, listener: socket.socket, take: Callable[[socket.socket], None]) -> None:
        with listener:
            while listener in self._open:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    if self._over.is_set():
                        return
                    time.sleep(_BREATHER)  # no descriptor is free, or its client has gone
                    continue
                self._begin(self._attend, take, connection)

    def _attend(self, take: Callable[[socket.socket], None], connection: socket.socket) -> None:
        with connection:
            try:
                take(connection)
            except _ERRORS as error:
                if not self._over.is_set():
                    self._tell(str(error))

    def _join(self, one: socket.socket, other: socket.socket) -> None:
        with self._ending(one, other):
            hand_on(one, other)

    def _dialling(self, member: Member) -> Callable[[socket.socket], None]:
        def take(connection: socket.socket) -> None:
            link = dial(self._local, member, PLAYER, seconds=_PATIENCE)
            self._join(connection, link.connection)

        return take

    def _take(self, guest: Admitted) -> None:
        """A member came in at the open port."""
        self._begin(self._attend, lambda _: self._admit(guest), guest.connection)

    def _admit(self, link: Admitted) -> None:
        """Joins a member's link to what it is for."""
        with link.connection:
            if link.member.role not in ("server", "client"):
                raise ArgumentError("role", link.member.role, "server or client", link.member.name)
            if link.purpose == PLAYER:
                own = socket.create_connection((self._here, self._port), _PATIENCE)
                self._join(own, link.connection)
            elif link.member.role == "client":
                with self._ending(link.connection):
                    self._keep_for_use(link.connection)

    def _keep_for_use(self, link: ssl.SSLSocket) -> None:
        """Keeps a client's link until a player wants to reach the client, and hands on then."""
        (port,) = _PORT.unpack(read(link, _PORT.size, self._over))
        with self._client_at(port) as wanting:
            while not self._over.is_set():
                try:
                    connection = wanting.get(timeout=_AGAIN)
                except queue.Empty:
                    if is_over(link):
                        return
                    continue
                link.send(_USED)
                self._join(connection, link)
                return

    @contextmanager
    def _client_at(self, port: int) -> Iterator["queue.SimpleQueue[socket.socket]"]:
        """Yields who wants to reach a client's port here, which is open while it has a link."""
        with self._clients:
            if port not in self._ways:
                wanting: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
                listener = self._listen(self._here, port, lambda one: wanting.put(one.dup()))
                self._ways[port] = _Way(listener, wanting)
            way = self._ways[port]
            way.links += 1
        try:
            yield way.wanting
        finally:
            with self._clients:
                way.links -= 1
                if not way.links:
                    del self._ways[port]
                    with self._change:
                        self._open.discard(way.listener)
                    with suppress(OSError):
                        way.listener.shutdown(socket.SHUT_RDWR)
                    while not way.wanting.empty():
                        way.wanting.get().close()

    def _reachable_by(self, member: Member) -> None:
        """Keeps a link by which a player can reach this client's own port, and renews it."""
        while not self._over.is_set():
            try:
                link = dial(self._local, member, BACK, seconds=_PATIENCE)
                with link.connection, self._ending(link.connection):
                    link.connection.send(_PORT.pack(self._port))
                    read(link.connection, len(_USED), self._over)
                    self._begin(self._reachable_by, member)
                    own = socket.create_connection((self._here, self._port), _PATIENCE)
                    self._join(own, link.connection)
                return
            except _ERRORS as error:
                if not self._over.is_set():
                    self._tell(str(error))
                self._over.wait(_AGAIN)


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _PATIENCE).close()
    except OSError:
        return False
    return True


def _terms(member: Member, claim: Claim, seconds: float) -> Terms:
    purposes = (PLAYER, BACK)
    known = claim.purpose in purposes
    return Terms(claim.purpose if known else " or ".join(purposes), NO_RUN)
