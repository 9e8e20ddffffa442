"""A party's way to the dealer: it knocks until it has its seat, then waits for the others."""

from __future__ import annotations

import ssl
import struct
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from crypten_ext.masks.keystream import KEY_BYTES
from extensions.errors import DealerLostError, PartyLostError
from extensions.transport import Local, Member, Mesh, RejectedError, connect_to
from extensions.transport.handshake import again
from extensions.transport.handshake_messages import MalformedError
from extensions.transport.reconnecting import RETURN, Reconnector
from extensions.transport.reliable_channel import Hear, Lose, ReliableChannel
from extensions.transport.stream import Stream
from extensions.transport.wire import BusyError

DEALING, AGAIN = "tuples", "tuples again"
"""Purposes of these connections: for a seat, and for one whose connection broke."""
DEALER = 0
"""The dealer's place in a party's correspondence with it."""
LARGEST = 32 << 20
"""Bytes of a message: a plan of 100,000 tuples has some 10 MB."""
PATIENCE = 30.0
"""Seconds for which a party tries to get its seat."""
GATHERING = 300.0
"""Seconds for which a party that has its seat waits for the others."""
SILENCE = 30.0
"""Seconds without a word after which a dealer that gave a seat is lost; it says one every 5."""
_ATTEMPT, _LEAST, _PAUSE = 10.0, 2.0, 0.2
"""Seconds that the dealer's first words may take, for which it is at least called, and between."""
_MISSING = struct.Struct(">Q")


@dataclass(frozen=True)
class DealerConnection:
    """A party's place at the dealer, with the key of its tuples."""

    local: Local
    run: bytes
    connection: ssl.SSLSocket
    key: bytes

    def correspond(self, hear: Hear, lose: Lose, seconds: float = RETURN) -> ReliableChannel:
        """Returns the messages to and from the dealer, once all parties have their seats.

        A connection that breaks must be there again within `seconds`.
        """
        assert self.local.rank is not None
        dial_again = again(self.local, _dealer_of(self.local), AGAIN, self.run)
        reconnector = Reconnector({DEALER: dial_again}, seconds)
        mesh = Mesh(self.local.rank, {DEALER: self.connection}, reconnector)
        return ReliableChannel(mesh, LARGEST, hear, lose)


def connect(
    find: Callable[[], Local],
    run: bytes,
    patience: float = PATIENCE,
    gathering: float = GATHERING,
    silence: float = SILENCE,
) -> DealerConnection:
    """Returns a party's seat at the dealer, once all parties have theirs.

    Args:
        find: returns this party's end, whose federation has a dealer; OSError if it is not there
            yet.
        run: of which no other has the digest.
        patience: seconds for which a seat is tried for, while nobody answers or the dealer deals
            for another run; the last try may take 2 s more.
        gathering: seconds for which the others may make this one wait, once it has its seat.
        silence: seconds without a word of the dealer meanwhile after which it is lost.

    Raises:
        DealerLostError: nobody answers at the dealer's address, either end refused the other, or
            the dealer ended or fell silent; it says why.
        PartyLostError: a party did not come to the dealer in time; the first of those is named.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            seat, missing = _take(find(), run, max(_LEAST, deadline - time.monotonic()))
            break
        except (RejectedError, MalformedError, OSError) as error:
            is_final = isinstance(error, RejectedError) and not isinstance(error, BusyError)
            if is_final or time.monotonic() + _PAUSE >= deadline:
                what = "the one of this federation" if is_final else "at hand"
                raise DealerLostError(f"is not {what}: {error}") from error
            time.sleep(_PAUSE)
    try:
        _wait_for(missing, seat, gathering, silence)
    except BaseException:
        seat.connection.close()
        raise
    return seat


def missing_message(ranks: Collection[int]) -> bytes:
    """Returns what tells the seated for whom the dealer still waits."""
    return _MISSING.pack(sum(1 << rank for rank in ranks))


def _dealer_of(local: Local) -> Member:
    dealer = local.federation.dealer
    assert dealer is not None
    return dealer


def _take(local: Local, run: bytes, seconds: float) -> tuple[DealerConnection, list[int]]:
    """Returns this party's seat, and which parties have none yet."""
    connection = connect_to(local, _dealer_of(local), DEALING, run, seconds=seconds).connection
    try:
        deadline = time.monotonic() + _ATTEMPT
        seat = DealerConnection(
            local, run, connection, Stream(connection).read(KEY_BYTES, deadline)
        )
        return seat, _missing(seat, deadline)
    except BaseException:
        connection.close()
        raise


def _wait_for(missing: list[int], seat: DealerConnection, seconds: float, silence: float) -> None:
    """Returns once the dealer says that nobody is missing."""
    deadline = time.monotonic() + seconds
    try:
        while missing:
            missing = _missing(seat, min(time.monotonic() + silence, deadline))
    except TimeoutError:
        if time.monotonic() < deadline:
            raise DealerLostError(f"said nothing for {silence:g} s.") from None
        others = "".join(f", nor had party {rank}" for rank in missing[1:])
        reason = f"had not come to the dealer after {seconds:g} s{others}"
        raise PartyLostError(missing[0], reason) from None
    except (OSError, MalformedError) as error:
        raise DealerLostError(f"broke its connection: {error}.") from error


def _missing(seat: DealerConnection, deadline: float) -> list[int]:
    """Returns the ranks for which the dealer says that it waits."""
    (ranks,) = _MISSING.unpack(Stream(seat.connection).read(_MISSING.size, deadline))
    parties = len(seat.local.federation.parties)
    if ranks >> parties:
        raise MalformedError("sent a message out of turn")
    return [rank for rank in range(parties) if ranks >> rank & 1]
