"""The dealer's door: parties of its federation come, leave and come back, strangers get nothing."""

from __future__ import annotations

import os
import socket
import ssl
import time
from dataclasses import dataclass

from crypten_ext.dealer.connection.party import AGAIN, DEALING, LARGEST, missing_message
from crypten_ext.masks.keystream import KEY_BYTES
from extensions import transport
from extensions.checks import waitable
from extensions.errors import PartyLostError
from extensions.transport import Local, Member, Mesh
from extensions.transport.handshake import Admitted, Terms
from extensions.transport.handshake_messages import Claim
from extensions.transport.reconnecting import Reconnector
from extensions.transport.reliable_channel import Hear, Lose, ReliableChannel
from extensions.transport.stream import Stream
from extensions.transport.wire import BUSY

_ASKING = 0.05
_SAYING = 5.0
"""Seconds after which the seated hear again who is missing, and so that the dealer is there."""
_DEALERS = -1
"""Rank of the dealer's own end."""


@dataclass(frozen=True)
class _PartyConnection:
    connection: ssl.SSLSocket
    stream: Stream
    key: bytes
    run: bytes


class DealerListener(transport.Listener):
    """Where the parties of a federation get their seats, until the `with` block ends.

    Guarantees:
        Those of `extensions.transport.Listener`. Each visitor sends at most some messages of
        bounded length. All seats are of one run, and of parties with the dealer's software.
    """

    def __init__(self, local: Local, listener: socket.socket) -> None:
        super().__init__(local, listener, [DEALING, AGAIN])
        self._parties = len(local.federation.parties)
        self._seats: dict[int, _PartyConnection] = {}
        self._reconnector: Reconnector | None = None
        self._told = 0.0

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        self.clear()

    def gather(self, seconds: float, *, after_first: bool) -> list[bytes]:
        """Returns the keys of the parties' tuples by rank, once every seat is taken.

        From then on no seat is given until `clear`. With `after_first` the seconds count only while
        a party has its seat. Raises PartyLostError, naming the first absent party, when time is up.
        """
        begin = time.monotonic()
        with self.change:
            while len(self._seats) < self._parties:
                if after_first and not self._seats:
                    begin = time.monotonic()  # parties may take their time between two runs
                left = begin + seconds - time.monotonic()
                if left <= 0.0:
                    raise self._late(seconds)
                self.change.wait(min(left, _ASKING) if self._seats else waitable(left))
                if len(self._seats) < self._parties:  # else they may speak already
                    self._dismiss_leavers()
                    if time.monotonic() - self._told > _SAYING:
                        self._tell()
            return [self._seats[rank].key for rank in range(self._parties)]

    def correspondence(self, hear: Hear, lose: Lose) -> ReliableChannel:
        """Returns the messages of all who have gathered.

        A party whose connection breaks comes back here, as long as the door is open.
        """
        assert self._reconnector is not None
        connections = {rank: seat.connection for rank, seat in self._seats.items()}
        return ReliableChannel(Mesh(_DEALERS, connections, self._reconnector), LARGEST, hear, lose)

    def clear(self) -> list[str]:
        """Frees all seats; returns why the latest visitors were refused since the last call."""
        with self.change:
            if self._reconnector is not None:
                self._reconnector.close()
                self._reconnector = None
            for seat in self._seats.values():
                seat.stream.close()
            self._seats = {}
        return self.forget()

    def terms(self, member: Member, claim: Claim, seconds: float) -> Terms:
        """Returns what is expected of a member: that it is a party of the run that is dealt for."""
        purpose = claim.purpose if claim.purpose == AGAIN else DEALING
        return Terms(purpose, claim.run, self._objection(member, claim))

    def settle(self, guest: Admitted) -> None:
        """Gives a seat, unless another visitor was faster, or this one has gone again."""
        rank = self._local.federation.rank_of(guest.member)
        assert rank is not None
        if guest.purpose == AGAIN:
            if self._reconnector is None:
                guest.connection.close()
            else:
                self._reconnector.give(rank, guest.connection)
            return
        seat = _PartyConnection(
            guest.connection, Stream(guest.connection), os.urandom(KEY_BYTES), guest.run
        )
        self._dismiss_leavers()  # nobody may speak before the last seat is taken
        if rank in self._seats or self._others(guest.run) or seat.stream.is_readable():
            seat.stream.close()
            return
        self._seats[rank] = seat
        if self._say(rank, seat.key):
            if len(self._seats) == self._parties:
                self._reconnector = self._reconnector or Reconnector({})
            self._tell()

    def _others(self, run: bytes) -> set[bytes]:
        """Returns what else parties have seats for: another run, or none."""
        return {seat.run for seat in [*self._seats.values()]} - {run}

    def _objection(self, member: Member, claim: Claim) -> str:
        rank, reconnector = self._local.federation.rank_of(member), self._reconnector
        if rank is None:
            return f"expected a party, came {member.name}, a {member.role}"
        seat = self._seats.get(rank)
        if claim.purpose == AGAIN:
            if reconnector is not None and seat is not None and seat.run == claim.run:
                return ""
            of_run = claim.run.hex()
            return f"expected a party of a run that is dealt for, came {member.name} of {of_run}"
        if others := self._others(claim.run):
            if reconnector is not None and reconnector.is_away(rank):
                reconnector.give_up(f"and {member.name} has begun another run.")
            return f"{BUSY}expected the run {others.pop().hex()}, came {claim.run.hex()}"
        if seat is not None:
            return f"{BUSY}expected no second host for {member.name}, whose connection is open"
        return ""

    def _late(self, seconds: float) -> PartyLostError:
        missing = self._missing
        others = "".join(f", nor has party {one}" for one in missing[1:])
        return PartyLostError(
            missing[0],
            f"has not come to the dealer within {seconds:g} s{others}. Start the dealer, "
            f"and all {self._parties} parties. " + " ".join(self.refused),
        )

    @property
    def _missing(self) -> list[int]:
        return [rank for rank in range(self._parties) if rank not in self._seats]

    def _dismiss_leavers(self) -> None:
        for rank, seat in [*self._seats.items()]:
            if seat.stream.is_readable() or seat.stream.has_vanished:
                self._leave(rank, seat)

    def _leave(self, rank: int, seat: _PartyConnection) -> None:
        """Frees a seat: its party has gone, or speaks although it was not asked."""
        if self._seats.get(rank) is seat:
            del self._seats[rank]
            seat.stream.close()
            self._tell()

    def _tell(self) -> None:
        """Tells the seated who is missing, the newest first; who cannot be told loses its seat."""
        self._told = time.monotonic()
        message = missing_message(self._missing)
        for rank in reversed([*self._seats]):
            if not self._say(rank, message):
                return

    def _say(self, rank: int, message: bytes) -> bool:
        """Returns whether this party was told; else its seat is free again."""
        seat = self._seats[rank]
        try:
            seat.stream.write(message, 0.0)
        except OSError:
            self._leave(rank, seat)
            return False
        return True
