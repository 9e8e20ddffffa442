"""A party's way to the dealer: it knocks until it has its seat, then waits for the others."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from crypten_ext.dealer.connection.frames import BrokenFrameError, Plain
from crypten_ext.dealer.connection.handshake import ANSWER_BYTES, PROOF, Guest, awaited
from crypten_ext.dealer.connection.link import Link
from crypten_ext.dealer.connection.members import visit
from crypten_ext.masks.keystream import KEY_BYTES
from extensions.checks import check_address
from extensions.errors import DealerLostError, PartyLostError
from extensions.transport import Local, Member, RefusedError
from extensions.transport.hello import NO_RUN
from extensions.transport.wire import BusyError, Wire

PATIENCE = 30.0
"""Seconds for which a party tries to get its seat."""
GATHERING = 300.0
"""Seconds for which a party that has its seat waits for the others."""
SILENCE = 30.0
"""Seconds without a word after which a dealer that gave a seat is lost; it says one every 5."""
_ATTEMPT, _LEAST = 10.0, 2.0
"""Seconds that an attempt may take, at most and at the end of the patience."""
_PAUSE = 0.2
_Seated = tuple[Link, bytes, list[int]]
"""The link, the key of the tuples, and which parties have no seat yet."""


def connect(
    address: str,
    rank: int,
    parties: int,
    patience: float = PATIENCE,
    gathering: float = GATHERING,
    run: bytes = NO_RUN,
    silence: float = SILENCE,
) -> tuple[Link, bytes]:
    """Returns a party's link to the dealer, and the key of its tuples, once all have a seat.

    Args:
        address: HOST:PORT of the dealer.
        rank: of this party.
        parties: their number.
        patience: seconds for which a seat is tried for: while nobody answers, the connection
            breaks, or another connection has the seat; the last try may take 2 s more.
        gathering: seconds for which the others may make this one wait, once it has its seat.
        run: digest of the manifest of this party's run.
        silence: seconds without a word of the dealer meanwhile after which it is lost.

    Raises:
        DealerLostError: nobody answers at the address, whoever answers is no dealer or refuses this
            party, which has other software or another run; or the dealer ended, or fell silent.
        PartyLostError: a party did not come to the dealer in time; the first of those is named.
    """
    target = check_address("address", address)

    def take(seconds: float) -> _Seated:
        return _take_seat(target, Guest(rank, parties, run), parties, seconds)

    def say(error: Exception) -> str:
        is_silent = isinstance(error, OSError)
        return f"{'does not answer ' if is_silent else ''}at {address}: {error}."

    link, key, missing = _seated(take, say, patience)
    _wait_for(missing, link, parties, gathering, silence)
    return link, key


def connect_member(
    local: Local,
    dealer: Member,
    run: bytes,
    patience: float = PATIENCE,
    gathering: float = GATHERING,
    silence: float = SILENCE,
) -> tuple[Link, bytes]:
    """Returns a party's link to the dealer of its federation, and the key of its tuples.

    Args:
        local: this party's end.
        dealer: as the federation names it.
        run: of which no other has the digest.
        patience: seconds for which a seat is tried for, while nobody answers or the dealer deals
            for another run.
        gathering: seconds for which the others may make this one wait, once it has its seat.

        silence: as in `connect`.

    Raises:
        DealerLostError: nobody answers at the dealer's address, either end refused the other, or
            the dealer ended or fell silent; it says why.
        PartyLostError: a party did not come to the dealer in time; the first of those is named.
    """
    parties = len(local.federation.parties)

    def take(seconds: float) -> _Seated:
        return _seat_of(local, dealer, run, parties, seconds)

    def say(error: Exception) -> str:
        passes = not isinstance(error, RefusedError) or isinstance(error, BusyError)
        return f"is not {'at hand' if passes else 'the one of this federation'}: {error}"

    link, key, missing = _seated(take, say, patience)
    _wait_for(missing, link, parties, gathering, silence)
    return link, key


def _seated(
    take: Callable[[float], _Seated], say: Callable[[Exception], str], patience: float
) -> _Seated:
    """Returns this party's seat; while it gets none it tries again.

    Args:
        take: tries for some seconds.
        say: what became of the dealer, given why it is no use to try again.
        patience: seconds for which a seat is tried for.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return take(max(_LEAST, deadline - time.monotonic()))
        except (RefusedError, BrokenFrameError, OSError) as error:
            is_final = isinstance(error, RefusedError) and not isinstance(error, BusyError)
            if is_final or time.monotonic() + _PAUSE >= deadline:
                raise DealerLostError(say(error)) from error
            time.sleep(_PAUSE)


def _seat_of(local: Local, dealer: Member, run: bytes, parties: int, seconds: float) -> _Seated:
    """Returns the seat of a member of a federation."""
    link = Link(visit(local, dealer, run, seconds).connection, Plain())
    try:
        key = link.receive(_ATTEMPT)
        if len(key) != KEY_BYTES:
            raise BrokenFrameError("closed its connection")
        return link, key, awaited(link.receive(_ATTEMPT), parties)
    except BaseException:
        link.close()
        raise


def _take_seat(target: tuple[str, int], guest: Guest, parties: int, seconds: float) -> _Seated:
    """Returns the seat of a guest without a federation."""
    attempt = min(_ATTEMPT, seconds)
    latest = time.monotonic() + attempt
    connection = socket.create_connection(target, timeout=attempt)
    with Wire(connection, "the dealer", attempt) as wire:
        wire.write(guest.hello())
        seat = guest.seat(wire.read(ANSWER_BYTES))
        link = Link(wire.keep(), seat.frames)
    try:
        link.send(PROOF)
        message = link.receive(max(1e-3, latest - time.monotonic()))
        if not message:
            raise BrokenFrameError("closed its connection")
        return link, seat.key, awaited(message, parties)
    except BaseException:
        link.close()
        raise


def _wait_for(missing: list[int], link: Link, parties: int, seconds: float, silence: float) -> None:
    """Returns once the dealer says that nobody is missing; else the link is closed."""
    deadline = time.monotonic() + seconds
    try:
        while missing:
            message = link.receive(max(1e-3, min(silence, deadline - time.monotonic())))
            if not message:
                raise DealerLostError("closed its connection.")
            missing = awaited(message, parties)
    except BaseException as error:
        link.close()
        if isinstance(error, TimeoutError) and time.monotonic() < deadline:
            raise DealerLostError(f"said nothing for {silence:g} s.") from None
        if isinstance(error, TimeoutError):
            others = "".join(f", nor had party {rank}" for rank in missing[1:])
            reason = f"had not come to the dealer after {seconds:g} s{others}"
            raise PartyLostError(missing[0], reason) from None
        if isinstance(error, OSError | BrokenFrameError):
            raise DealerLostError(f"broke its connection: {error}.") from error
        raise
