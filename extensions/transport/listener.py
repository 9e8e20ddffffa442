"""Where other hosts come in: one open port, behind which only members of the federation stay."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from extensions.checks import check_address, literal, waitable
from extensions.errors import ArgumentError
from extensions.transport.acceptor import Acceptor
from extensions.transport.federation import Member
from extensions.transport.handshake import ATTEMPT, Admitted, Local, Terms, accept
from extensions.transport.handshake_messages import NO_RUN, Claim


@contextmanager
def listening(local: Local) -> Iterator[socket.socket]:
    """Yields a socket that listens at the port of this host's own address, on all its interfaces.

    With a name it takes IPv4 and IPv6 where the system has both. At an address of loopback, or
    localhost, it listens there alone; what another name means on the host itself does not matter,
    since that is often an address of loopback.

    Raises:
        ArgumentError: the host has no address, or the port is taken.
    """
    address = local.member.address
    host, port = check_address("address", address)
    plain = literal(host)
    is_inner = host.lower() == "localhost" if plain is None else plain.is_loopback
    has_both = plain is None and not is_inner and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if has_both or ":" in host else socket.AF_INET
    own = host if is_inner else ""
    try:
        listener = socket.create_server((own, port), family=family, dualstack_ipv6=has_both)
    except OSError as error:
        advice = "End what listens there, or give this member another port in every host's file: "
        advice += f"`pea federation`. {error}."
        raise ArgumentError("address", address, "a free port", advice) from error
    with listener:
        yield listener


class Listener(Acceptor[Admitted]):
    """Takes members' connections until the `with` block ends.

    Args:
        local: this end.
        listener: where everybody connects; it is closed in the end.
        purposes: of the connections that are taken.
        open_ended: those of them that belong to no run.

    Guarantees:
        those of `Acceptor`. A connection without a key of the federation costs at most one
        handshake, `ATTEMPT` seconds and a hundred kilobytes.
    """

    def __init__(
        self,
        local: Local,
        listener: socket.socket,
        purposes: Collection[str],
        open_ended: Collection[str] = (),
    ) -> None:
        super().__init__(listener)
        self._local = local
        self._purposes, self._open_ended = purposes, open_ended
        self._run = b""
        self._arrived: dict[tuple[str, str], Admitted] = {}
        self._takers: dict[str, Callable[[Admitted], None]] = {}

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        for one in self._arrived.values():
            one.connection.close()

    def begin(self, run: bytes) -> None:
        """Connections must belong to this run; those that came before it was known waited."""
        with self.change:
            self._run = run
            self.change.notify_all()

    def take(self, member: Member, purpose: str, seconds: float) -> Admitted:
        """Returns the newest connection of a member for a purpose, once it is there.

        Raises:
            TimeoutError: it did not come in time; who was refused meanwhile is told.
        """
        key = (member.name, purpose)
        with self.change:
            if self.change.wait_for(lambda: key in self._arrived, waitable(seconds)):
                return self._arrived.pop(key)
        refused = "".join(f" {each}" for each in self.refused)
        raise TimeoutError(f"{member.name} did not come within {seconds:g} s.{refused}")

    def hand_on(self, purpose: str, taker: Callable[[Admitted], None]) -> None:
        """Connections for a purpose go to a taker from now on, which must not keep the door."""
        with self.change:
            self._takers[purpose] = taker
            for key in [key for key in self._arrived if key[1] == purpose]:
                taker(self._arrived.pop(key))

    def receive(self, connection: socket.socket) -> Admitted:
        """Returns the connection of a member that proved who it is."""
        return accept(self._local, connection, self.terms, ATTEMPT)

    def settle(self, guest: Admitted) -> None:
        """Keeps the newest connection of a member for a purpose, or hands it on."""
        if guest.purpose in self._takers:
            self._takers[guest.purpose](guest)
            return
        key = (guest.member.name, guest.purpose)
        if key in self._arrived:
            self._arrived[key].connection.close()
        self._arrived[key] = guest

    def close(self, guest: Admitted) -> None:
        """Its connection is closed."""
        guest.connection.close()

    def terms(self, member: Member, claim: Claim, seconds: float) -> Terms:
        """Returns what is expected of a member that claims this; may wait so long."""
        if claim.purpose not in self._purposes:
            return Terms(" or ".join(self._purposes), NO_RUN)
        if claim.purpose in self._open_ended:
            return Terms(claim.purpose, NO_RUN)
        with self.change:
            if not self.change.wait_for(lambda: self._run or not self.is_open, seconds):
                raise TimeoutError("came before the run was known")
            return Terms(claim.purpose, self._run or NO_RUN)
