"""How a connection gets a seat: hello, welcome, proof. Messages alone; sockets are elsewhere.

Keys come from X25519 by HKDF, one for each direction and one for the tuples. The public values are
not authenticated: somebody who can alter messages while a run starts can take the dealer's place,
and whoever reaches the dealer first can take a party's. Hosts of a federation come by TLS instead
(`crypten_ext.dealer.connection.members`).

A hello also says which software speaks, and the digest of its run's manifest, which is public: the
dealer turns away whoever has other software than itself, or another run than those seated.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crypten_ext.dealer.connection.frames import (
    LENGTH,
    BrokenFrameError,
    Frames,
    Framing,
    frame_bytes,
)
from crypten_ext.masks.key_agreement import KeyPair
from extensions import __version__
from extensions.transport import RefusedError
from extensions.transport.hello import NO_RUN

MAGIC = b"dealer 3"
WELCOMES, SEAT_TAKEN, OTHER_NUMBER, OTHER_SOFTWARE, OTHER_RUN = range(5)
"""What the dealer answers: come in, try again later, or which of three things differs."""
PROOF = b"seat"
_WAITS = b"waits for"
_HELLO = struct.Struct(f">{len(MAGIC)}sHH32s32s32s")
_ANSWER = struct.Struct(f">{len(MAGIC)}sB32s")
ANSWER_BYTES = _ANSWER.size
_NOT_PRINTED = re.compile(r"[^\w.+-]")


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


@dataclass(frozen=True)
class Seat:
    """A connection that proved its keys.

    Attributes:
        rank: of the party.
        public: the party's public value; nothing of a member of a federation.
        frames: this side's.
        key: of the party's tuples; nothing of one that comes back, which has it.
        run: digest of the manifest of its run.
    """

    rank: int
    public: bytes
    frames: Framing
    key: bytes
    run: bytes


class Guest:
    """A party's side.

    Args:
        rank: of this party.
        parties: number of parties.
        run: digest of the manifest of its run.
    """

    def __init__(self, rank: int, parties: int, run: bytes = NO_RUN) -> None:
        self._rank, self._parties, self._run = rank, parties, run
        self._own = KeyPair()

    def hello(self) -> bytes:
        """Returns the first message."""
        said = (self._rank, self._parties, _software(), self._run)
        return _HELLO.pack(MAGIC, *said, self._own.public_bytes)

    def seat(self, answer: bytes) -> Seat:
        """Returns the seat that the dealer's answer offers; the proof is still to be sent.

        Raises:
            BrokenFrameError: other connections have the seat, or seats for another run, and may
                leave them.
            RefusedError: it deals for another number of parties, has other software, or is no
                dealer.
        """
        magic, verdict, theirs = _ANSWER.unpack(answer)
        if magic != MAGIC or verdict > OTHER_RUN:
            raise RefusedError("is no dealer of this version")
        if verdict == SEAT_TAKEN:
            raise BrokenFrameError(f"refused {self._who}: another connection has that seat")
        if verdict == OTHER_RUN:
            runs = f"it deals for the run {theirs.hex()}, this party's is {self._run.hex()}"
            raise BrokenFrameError(f"refused {self._who}: {runs}")
        if verdict != WELCOMES:
            raise RefusedError(f"refused {self._who}: {_difference(verdict, theirs)}")
        own = self._own.public_bytes
        keys = _agree(self._own, theirs, self._bound, own + theirs)
        return Seat(self._rank, own, Frames(keys.to_dealer, keys.to_party), keys.tuples, self._run)

    @property
    def _who(self) -> str:
        return f"party {self._rank} of {self._parties}"

    @property
    def _bound(self) -> str:
        return _bound(self._rank, self._parties, self._run)


class Visit:
    """The dealer's side of one connection, from its first byte to its seat.

    Args:
        parties: number of parties.
        seats: those that are taken, as they are whenever this visit says something, each with the
            digest of its party's run.

    Attributes:
        due: number of bytes that its next message lacks. No more are ever kept.
        seat: once it has proved its keys.
        refused: whether it must leave, after it has been sent the answer.
    """

    def __init__(self, parties: int, seats: Mapping[int, bytes]) -> None:
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
        magic, rank, expected, software, run, theirs = _HELLO.unpack(hello)
        if magic != MAGIC or not rank < expected:
            raise BrokenFrameError("said no hello")
        if expected != self._parties:
            return self._refuse(OTHER_NUMBER)
        if software != _software():
            return self._refuse(OTHER_SOFTWARE, _software())
        if rank in self._seats:
            return self._refuse(SEAT_TAKEN)
        if others := {*self._seats.values()} - {run}:
            return self._refuse(OTHER_RUN, others.pop())
        own = KeyPair()
        publics = theirs + own.public_bytes
        keys = _agree(own, theirs, _bound(rank, self._parties, run), publics)
        self._offer = Seat(rank, theirs, Frames(keys.to_party, keys.to_dealer), keys.tuples, run)
        self.due = frame_bytes(PROOF)
        return _ANSWER.pack(MAGIC, WELCOMES, own.public_bytes)

    def _check(self, offer: Seat, frame: bytes) -> bytes:
        length, sealed = frame[: LENGTH.size], frame[LENGTH.size :]
        if length != LENGTH.pack(len(sealed)) or offer.frames.open(sealed) != PROOF:
            raise BrokenFrameError("proved something else than its keys")
        if offer.rank in self._seats or {*self._seats.values()} - {offer.run}:
            raise BrokenFrameError("came too late")  # others took seats since it said hello
        self.seat = offer
        return b""

    def _refuse(self, verdict: int, instead: bytes = bytes(32)) -> bytes:
        self.refused = True
        return _ANSWER.pack(MAGIC, verdict, instead)


@dataclass(frozen=True)
class _Keys:
    tuples: bytes
    to_party: bytes
    to_dealer: bytes


def _difference(verdict: int, theirs: bytes) -> str:
    """Says which of two things the dealer has otherwise."""
    if verdict == OTHER_NUMBER:
        return "it deals for another number of parties"
    name = _NOT_PRINTED.sub("?", theirs.rstrip(b"\0").decode("ascii", "replace"))
    return f"it has pea-mpl {name}, this party {__version__}"


def _software() -> bytes:
    return __version__.encode()[:32].ljust(32, b"\0")


def _bound(rank: int, parties: int, run: bytes) -> str:
    return f"{rank} of {parties} in {run.hex()}"


def _agree(own: KeyPair, theirs: bytes, bound: str, publics: bytes) -> _Keys:
    uses = ("tuples", "to party", "to dealer")
    who = f"{bound} {publics.hex()}"
    try:
        return _Keys(*(own.agree(theirs, f"dealer {use} {who}") for use in uses))
    except ValueError:  # a point of low order
        raise BrokenFrameError("sent a public value that belongs to no secret") from None
