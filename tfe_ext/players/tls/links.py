"""The links of one host: those that it takes at its open port, and those that it dials."""

import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Self

from extensions.checks import check_address
from extensions.errors import ArgumentError
from extensions.transport import Local, Member, dial
from extensions.transport.door import listening
from extensions.transport.handshake import ATTEMPT, Admitted, Terms, answer
from extensions.transport.hello import NO_RUN, Claim
from extensions.transport.kernel import cut
from extensions.transport.stream import Stream
from tfe_ext.players.addresses import is_here
from tfe_ext.players.tls.members import ROLES, members_of
from tfe_ext.players.tls.ports import ERRORS, Guest, Port, Way, begin
from tfe_ext.players.tls.pump import hand_on

PLAYER, BACK = "player", "back"
"""What links are for: to reach a player, or to be reached by one."""
_HERE = "127.0.0.1"
_AGAIN = 1.0
_SPARE = 4
"""Links by which one player can reach a client at once, beside those in use."""
_PORT = struct.Struct(">H")
_USED = b"\1"


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
        Whoever is no server or client of the federation gets no further than one handshake at the
        open port, which is on all interfaces of this host (`Lobby` bounds what they cost). Links
        are dialled only to members with the certificates that the federation has.
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
        self._ways: dict[int, Way] = {}
        self._clients, self._change = threading.Lock(), threading.Lock()
        self._over = threading.Event()
        self._open: set[socket.socket] = set()
        self._ports_open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.close)
            own = self._local.member
            client = own.role == "client"
            for name, member in self._members.items():
                there = client and _speaks(self._here, self._ports[name])  # a player is here
                if name != own.name and not there:
                    listener = self._listener(self._ports[name])
                    self._enter(Port(listener, self._dialling(member), self._join, self._tell))
                if client and not (there and is_here(member.address)):
                    for _ in range(_SPARE):
                        begin(self._reachable_by, member)
            if own.role == "server":
                listener = self._ports_open.enter_context(listening(self._local))
                self._enter(Port(listener, self._admit, self._attend, self._tell))
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all links."""
        self._over.set()
        self._ports_open.close()
        with self._change:
            for each in self._open:
                cut(each)

    def _enter(self, port: Port[Guest]) -> None:
        self._ports_open.enter_context(port)

    def _listener(self, port: int) -> socket.socket:
        try:
            return socket.create_server((self._here, port))
        except OSError as error:
            place = f"{self._here}:{port}"
            allowed = "a port that is free on this host"
            advice = f"{error}. End what has it, such as an earlier client that was only stopped."
            raise ArgumentError("players", place, allowed, advice) from error

    @contextmanager
    def _ending(self, *connections: socket.socket) -> Iterator[None]:
        """Closes the connections when the links end, until the block ends."""
        with self._change:
            self._open.update(connections)
        try:
            if self._over.is_set():
                raise ConnectionAbortedError("all links have ended")
            yield
        finally:
            with self._change:
                self._open.difference_update(connections)

    def _join(self, ends: tuple[socket.socket, socket.socket]) -> None:
        one, other = ends
        with one, other, suppress(ConnectionAbortedError), self._ending(one, other):
            hand_on(one, other)

    def _dialling(
        self, member: Member
    ) -> Callable[[socket.socket], tuple[socket.socket, socket.socket]]:
        def receive(connection: socket.socket) -> tuple[socket.socket, socket.socket]:
            return connection, dial(self._local, member, PLAYER, seconds=ATTEMPT).connection

        return receive

    def _admit(self, connection: socket.socket) -> Admitted:
        return answer(self._local, connection, _terms)

    def _attend(self, link: Admitted) -> None:
        """Does what a member came for at the open port."""
        with link.connection:
            try:
                if link.purpose == PLAYER:
                    own = socket.create_connection((self._here, self._port), ATTEMPT)
                    self._join((own, link.connection))
                else:
                    with self._ending(link.connection):
                        self._keep_for_use(link.connection)
            except ERRORS as error:
                self._say(error)

    def _say(self, error: Exception) -> None:
        if not self._over.is_set():
            self._tell(str(error))

    def _keep_for_use(self, link: socket.socket) -> None:
        """Keeps a client's link until a player wants to reach the client, and hands on then."""
        stream = Stream(link)
        (port,) = _PORT.unpack(stream.read(_PORT.size))
        with self._client_at(port) as wanting:
            while not self._over.is_set():
                try:
                    connection = wanting.get(timeout=_AGAIN)
                except queue.Empty:
                    if stream.is_readable():  # nothing else than its end comes on an idle link
                        return
                    continue
                link.send(_USED)
                self._join((connection, link))
                return

    @contextmanager
    def _client_at(self, port: int) -> Iterator["queue.SimpleQueue[socket.socket]"]:
        """Yields who wants to reach a client's port here, which is open while it has a link."""
        with self._clients:
            if port not in self._ways:
                self._ways[port] = Way(self._listener(port)).__enter__()
            way = self._ways[port]
            way.links += 1
        try:
            yield way.wanting
        finally:
            with self._clients:
                way.links -= 1
                if not way.links:
                    self._ways.pop(port).__exit__()

    def _reachable_by(self, member: Member) -> None:
        """Keeps a link by which a player can reach this client's own port, and renews it."""
        while not self._over.is_set():
            try:
                link = dial(self._local, member, BACK, seconds=ATTEMPT).connection
                with link, self._ending(link):
                    link.send(_PORT.pack(self._port))
                    Stream(link).read(len(_USED))
                    begin(self._reachable_by, member)
                    own = socket.create_connection((self._here, self._port), ATTEMPT)
                    self._join((own, link))
                return
            except ERRORS as error:
                self._say(error)
                self._over.wait(_AGAIN)


def _speaks(host: str, port: int) -> bool:
    """Whether somebody there speaks first, as TensorFlow does and no client that was stopped."""
    try:
        with socket.create_connection((host, port), ATTEMPT) as connection:
            return bool(connection.recv(1))
    except OSError:
        return False


def _terms(member: Member, claim: Claim, seconds: float) -> Terms:
    purposes = (PLAYER, BACK) if member.role == "client" else (PLAYER,)
    objection = "" if member.role in ROLES else f"{member.name} is a {member.role}"
    known = claim.purpose in purposes
    return Terms(claim.purpose if known else " or ".join(purposes), NO_RUN, objection)
