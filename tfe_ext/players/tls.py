"""Links between players, and to a client, by mutually authenticated TLS 1.3.

TensorFlow reaches each other player, and the client, at that one's port of the loopback address.
What connects there is handed on to the member of the federation whose port it is: the link is
dialled to that host's one open port, and ends at its TensorFlow.
"""

import queue
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Generic, Self, TypeVar

from extensions.checks import check_address
from extensions.errors import ArgumentError, PeaError
from extensions.transport import Local, Member, connect_to
from extensions.transport.acceptor import Acceptor
from extensions.transport.handshake import ATTEMPT, Admitted, Terms, accept
from extensions.transport.handshake_messages import NO_RUN, Claim, MalformedError
from extensions.transport.kernel import ask_whether_alive, cut
from extensions.transport.listener import listening
from extensions.transport.stream import Stream
from tfe_ext.players.addresses import is_here

PLAYER, BACK = "player", "back"
"""What links are for: to reach a player, or to be reached by one."""
_HERE = "127.0.0.1"
_AGAIN = 1.0
_SPARE = 4
"""Links by which one player can reach a client at once, beside those in use."""
_PORT = struct.Struct(">H")
_USED = b"\1"
ROLES = ("server", "client")
ERRORS = (PeaError, OSError, MalformedError)
"""Why a link comes to nothing."""
Guest = TypeVar("Guest")


def members_of(local: Local, players: Mapping[str, str]) -> dict[str, Member]:
    """Returns the server of the federation that each player is; this host is one or a client."""
    if local.member.role not in ROLES:
        raise ArgumentError("key", local.member.name, "the key of a server or client")
    servers = {one.name: one for one in local.federation.members if one.role == "server"}
    if missing := [name for name in players if name not in servers]:
        listed = ", ".join(servers) or "nobody"
        raise ArgumentError("players", missing, f"servers of the federation: {listed}")
    return {name: servers[name] for name in players}


def begin(work: Callable[[Guest], None], argument: Guest) -> None:
    """Starts work in a thread of its own, which ends with the process."""
    threading.Thread(target=work, args=(argument,), daemon=True).start()


class Port(Acceptor[Guest], Generic[Guest]):
    """A port: what comes there is received, and then kept, each in a thread of its own.

    `receive` returns what a connection has become, and `keep` takes that over; `tell` is called
    with why a connection came to nothing.
    """

    def __init__(
        self,
        listener: socket.socket,
        receive: Callable[[socket.socket], Guest],
        keep: Callable[[Guest], None],
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(listener)
        self._receive, self._keep, self._tell = receive, keep, tell

    def receive(self, connection: socket.socket) -> Guest:
        """Returns what a connection has become."""
        try:
            return self._receive(connection)
        except ERRORS as error:
            connection.close()
            if self.is_open:
                self._tell(str(error))
            raise

    def settle(self, guest: Guest) -> None:
        """Hands a guest over."""
        begin(self._keep, guest)

    def close(self, guest: Guest) -> None:
        """Hands a guest over all the same: who keeps it knows that all is over."""
        self.settle(guest)


class Way(Acceptor[socket.socket]):
    """To a client: the port where its player looks for it.

    Connections of the player are `wanting` a link, of which there are `links`.
    """

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(listener)
        self.wanting: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self.links = 0

    def receive(self, connection: socket.socket) -> socket.socket:
        """Returns the connection as it is."""
        return connection

    def settle(self, guest: socket.socket) -> None:
        """Lets it wait for a link."""
        self.wanting.put(guest)

    def close(self, guest: socket.socket) -> None:
        """Closes it."""
        guest.close()

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        while not self.wanting.empty():
            self.wanting.get().close()


class Links:
    """The links of a player's host, or of a client's, until the `with` block ends.

    The ports of the players' addresses are theirs on every host, or lead to them; this host's own
    TensorFlow listens at `port`, and its ends have the loopback address `here`. `tell` is called
    with why a connection came to nothing.

    Guarantees:
        Whoever is no server or client of the federation gets no further than one handshake at the
        open port, which is on all interfaces of this host (`Acceptor` bounds what they cost). Links
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
            own, enter = self._local.member, self._ports_open.enter_context
            client = own.role == "client"
            for name, member in self._members.items():
                there = client and _speaks(self._here, self._ports[name])  # a player is here
                if name != own.name and not there:
                    listener = self._listener(self._ports[name])
                    enter(Port(listener, self._dialling(member), self._join, self._tell))
                if client and not (there and is_here(member.address)):
                    for _ in range(_SPARE):
                        begin(self._reachable_by, member)
            if own.role == "server":
                admit = partial(accept, self._local, terms_of=_terms)
                enter(Port(enter(listening(self._local)), admit, self._attend, self._tell))
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

    def _listener(self, port: int) -> socket.socket:
        try:
            return socket.create_server((self._here, port))
        except OSError as error:
            place = f"{self._here}:{port}"
            allowed = "a port that is free on this host"
            advice = f"{error}. End the process that has it, for example a stopped client."
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
            return connection, connect_to(self._local, member, PLAYER, seconds=ATTEMPT).connection

        return receive

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
                link = connect_to(self._local, member, BACK, seconds=ATTEMPT).connection
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


_AT_ONCE = 1 << 18
_ASKED, _SILENCE = 3, 20
"""Seconds after which a silent host is asked whether it is there, and after which one that
acknowledges nothing is lost, as between players."""
_WAITS = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def hand_on(one: socket.socket, other: socket.socket) -> None:
    """Hands on until an end is closed or lost, and then closes both; 256 kB of memory.

    One thread does it, since two must not use a connection of TLS at once.
    """
    waiting = {one: b"", other: b""}
    with one, other, suppress(OSError):
        for each in waiting:
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ask_whether_alive(each, _ASKED, _SILENCE)
        while True:
            moved = [_move(*ends, waiting) for ends in ((one, other), (other, one))]
            if None in moved:
                return
            if not any(moved):
                _wait(one, other, waiting)


def _move(
    source: socket.socket, sink: socket.socket, waiting: dict[socket.socket, bytes]
) -> bool | None:
    """Whether anything was moved towards the sink; None at the end."""
    with suppress(*_WAITS):
        if waiting[sink]:
            waiting[sink] = waiting[sink][sink.send(waiting[sink]) :]
            return True
        waiting[sink] = source.recv(_AT_ONCE)
        return True if waiting[sink] else None
    return False


def _wait(one: socket.socket, other: socket.socket, waiting: dict[socket.socket, bytes]) -> None:
    poll = select.poll()
    for end, far in ((one, other), (other, one)):
        wanted = (select.POLLOUT if waiting[end] else 0) | (0 if waiting[far] else select.POLLIN)
        poll.register(end, wanted)
    poll.poll()
