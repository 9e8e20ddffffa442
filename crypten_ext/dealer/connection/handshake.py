"""How a connection gets a seat: hello, welcome, proof. Messages alone; sockets are elsewhere.

Keys come from X25519 by HKDF, one for each direction and one for the tuples. The public values are
not authenticated: somebody who can alter messages while a run starts can take the dealer's place,
and whoever reaches the dealer first can take a party's.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable
from dataclasses import dataclass

from crypten_ext.dealer.connection.frames import LENGTH, BrokenFrameError, Frames, frame_bytes
from crypten_ext.masks.key_agreement import KeyPair

MAGIC = b"dealer 2"
WELCOMES, SEAT_TAKEN, OTHER_RUN = range(3)
"""What the dealer answers: come in, try again later, or this is not your run."""
PROOF = b"seat"
_WAITS = b"waits for"
_HELLO = struct.Struct(f">{len(MAGIC)}sHH32s")
_ANSWER = struct.Struct(f">{len(MAGIC)}sB32s")
ANSWER_BYTES = _ANSWER.size


def awaiting(ranks: Iterable[int]) -> bytes:
    """Returns the message that tells the seated for whom the dealer still waits."""
    return _WAITS + bytes(ranks)


def awaited(message: bytes, parties: int) -> list[int]:
    """Returns the ranks for which the dealer waits.

    Raises:
        BrokenFrameError: the message says anything else.
    """
    ranks = [*message.removeprefix(_WAITS)]
    if not message.startswith(_WAITS) or not {*ranks} <= {*range(parties)}:
        raise BrokenFrameError("sent a message out of turn")
    return ranks


class RefusedError(Exception):
    """Whoever answers is no dealer of this run, and will not become one; the message says why."""


@dataclass(frozen=True)
class Seat:
    """A connection that proved its keys.

    Attributes:
        rank: of the party.
        public: the party's public value.
        frames: this side's.
        key: of the party's tuples.
    """

    rank: int
    public: bytes
    frames: Frames
    key: bytes


class Guest:
    """A party's side.

    Args:
        rank: of this party.
        parties: number of parties.
    """

    def __init__(self, rank: int, parties: int) -> None:
        self._rank, self._parties = rank, parties
        self._own = KeyPair()

    def hello(self) -> bytes:
        """Returns the first message."""
        return _HELLO.pack(MAGIC, self._rank, self._parties, self._own.public_bytes)

    def seat(self, answer: bytes) -> Seat:
        """Returns the seat that the dealer's answer offers; the proof is still to be sent.

        Raises:
            BrokenFrameError: another connection has the seat, and may leave it.
            RefusedError: it deals for another number of parties, or is no dealer.
        """
        magic, verdict, theirs = _ANSWER.unpack(answer)
        if magic != MAGIC or verdict not in (WELCOMES, SEAT_TAKEN, OTHER_RUN):
            raise RefusedError("is no dealer of this version")
        who = f"party {self._rank} of {self._parties}"
        if verdict == OTHER_RUN:
            raise RefusedError(f"refused {who}: it deals for another number of parties")
        if verdict == SEAT_TAKEN:
            raise BrokenFrameError(f"refused {who}: another connection has that seat")
        own = self._own.public_bytes
        keys = _agree(self._own, theirs, self._rank, self._parties, own + theirs)
        return Seat(self._rank, own, Frames(keys.to_dealer, keys.to_party), keys.tuples)


class Visit:
    """The dealer's side of one connection, from its first byte to its seat.

    Args:
        parties: number of parties.
        seats: those that are taken, as they are whenever this visit says something.

    Attributes:
        due: number of bytes that its next message lacks. No more are ever kept.
        seat: once it has proved its keys.
        refused: whether it must leave, after it has been sent the answer.
    """

    def __init__(self, parties: int, seats: Container[int]) -> None:
        self._parties, self._seats = parties, seats
        self._heard = b""
        self._offer: Seat | None = None
        self.due = _HELLO.size
        self.seat: Seat | None = None
        self.refused = False

    def hear(self, data: bytes) -> bytes:
        """Returns what to answer to the next bytes, at most `due`; empty while some are due.

        Raises:
            BrokenFrameError: this is no party.
        """
        self._heard += data
        self.due -= len(data)
        if self.due:
            return b""
        message, self._heard = self._heard, b""
        if self._offer is None:
            return self._welcome(message)
        return self._check(self._offer, message)

    def _welcome(self, hello: bytes) -> bytes:
        magic, rank, expected, theirs = _HELLO.unpack(hello)
        if magic != MAGIC or not rank < expected:
            raise BrokenFrameError("said no hello")
        if expected != self._parties:
            return self._refuse(OTHER_RUN)
        if rank in self._seats:
            return self._refuse(SEAT_TAKEN)
        own = KeyPair()
        keys = _agree(own, theirs, rank, self._parties, theirs + own.public_bytes)
        self._offer = Seat(rank, theirs, Frames(keys.to_party, keys.to_dealer), keys.tuples)
        self.due = frame_bytes(PROOF)
        return _ANSWER.pack(MAGIC, WELCOMES, own.public_bytes)

    def _check(self, offer: Seat, frame: bytes) -> bytes:
        length, sealed = frame[: LENGTH.size], frame[LENGTH.size :]
        if length != LENGTH.pack(len(sealed)) or offer.frames.open(sealed) != PROOF:
            raise BrokenFrameError("proved something else than its keys")
        if offer.rank in self._seats:  # since it said hello
            raise BrokenFrameError("came too late")
        self.seat = offer
        return b""

    def _refuse(self, verdict: int) -> bytes:
        self.refused = True
        return _ANSWER.pack(MAGIC, verdict, bytes(32))


@dataclass(frozen=True)
class _Keys:
    tuples: bytes
    to_party: bytes
    to_dealer: bytes


def _agree(own: KeyPair, theirs: bytes, rank: int, parties: int, publics: bytes) -> _Keys:
    uses = ("tuples", "to party", "to dealer")
    who = f"{rank} of {parties} {publics.hex()}"
    try:
        return _Keys(*(own.agree(theirs, f"dealer {use} {who}") for use in uses))
    except ValueError:  # a point of low order
        raise BrokenFrameError("sent a public value that belongs to no secret") from None
