"""One end of a connection of frames, which may go on over another connection once that broke.

A frame is a header of 16 bytes and a message. The header has the message's length and tag, the
frame's number, and how many frames of the other end were received: those are acknowledged. Frames
of an end are received in the order of their numbers, each once. Over another connection each end
says first how many it has received, and the other end sends again from there. Whoever receives much
and sends nothing says so in between.
"""

from __future__ import annotations

import select
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from extensions.errors import PartyLostError
from extensions.transport.kernel import carried_by, cut
from extensions.transport.reconnecting import Reconnector

LARGEST = (1 << 32) - 1
"""Bytes of a message."""
KEPT = 32 << 20
"""Bytes of frames that are kept for an end until they are acknowledged."""
HEADER = struct.Struct(">IIII")
_RECORD = (1 << 14) - HEADER.size
"""What goes with the header in one record of TLS."""
_SLICE = 1 << 18
_SPARE = 512
"""Bytes that keeping a frame takes beside its own."""
_NUMBERS = 1 << 32
"""Numbers of frames begin again there."""
_RECEIVED = 0xFFFFFFFF
"""Tag of the frame without a number that says how many frames were received."""
_SAID = 1 << 20
"""Bytes that are received before the other end is told, unless a frame tells it.

What it need not keep any more it uses again, while the processor's cache has it.
"""

Into = Callable[[int], memoryview]


class OutOfTurnError(Exception):
    """A message came that nobody asked for."""


class Transfer:
    """A message on its way.

    Attributes:
        done: whether its memory may be used again; of one that is received, whether it is there.
    """

    def __init__(
        self, wait: Callable[[Iterable[Transfer]], None], tag: int, into: Into | None = None
    ) -> None:
        self._wait = wait
        self.tag, self.into = tag, into
        self.done = False

    def wait(self) -> None:
        """Returns once it is done.

        Raises:
            PartyLostError: the connection broke, or another message came.
        """
        self._wait([self])


@dataclass(slots=True, eq=False)
class _Frame:
    parts: list[memoryview]
    transfer: Transfer
    size: int
    is_kept: bool


class Endpoint:
    """One host's end of its connection with another, and what is on its way there.

    Args:
        rank: of the other host.
        connection: with it, which does not block.
        reconnector: how another connection takes its place; None if none does.

    Attributes:
        sent: bytes of messages.
        received: likewise.
        wants: events of poll(2) without which it cannot go on.
        may_read: whether something may have come since nothing was there; poll(2) tells.

    Guarantees:
        at most `KEPT` bytes are kept. A frame for which there is no room stays where it is until
        the kernel has it, and cannot be sent again from then on, nor can those before it.
    """

    def __init__(
        self, rank: int, connection: ssl.SSLSocket, reconnector: Reconnector | None
    ) -> None:
        self.rank, self._reconnector = rank, reconnector
        self.connection: ssl.SSLSocket | None = connection
        self.out: deque[tuple[memoryview, _Frame | None]] = deque()
        self.due: deque[Transfer] = deque()
        self.sent = self.received = self.wants = 0
        self.may_read = True
        self._header = memoryview(bytearray(HEADER.size))
        self._target, self._length = self._header, 0
        self._in_body = self._is_resuming = False
        self._numbered = self._complete = self._unsaid = 0
        """Frames that were put here, those that were received, and bytes since that was said."""
        self._kept: deque[_Frame] = deque()
        self._kept_bytes = self._kept_from = 0
        self._earlier = (0, 0)

    @property
    def is_away(self) -> bool:
        """Whether it waits for another connection, or for what the other end has received."""
        return self.connection is None or self._is_resuming

    @property
    def carried(self) -> tuple[int, int]:
        """Bytes that its connections sent and received, by the kernel's count."""
        sent, received = (0, 0) if self.connection is None else carried_by(self.connection)
        return self._earlier[0] + sent, self._earlier[1] + received

    @property
    def is_acknowledged(self) -> bool:
        """Whether the other end has said that it has all frames."""
        return not self._kept and not self.out

    def has_room(self, size: int) -> bool:
        """Whether a message of so many bytes can be kept beside the others, or is alone."""
        return not self._kept or self._kept_bytes + _kept_size(size) <= KEPT

    def put(self, data: memoryview, transfer: Transfer, *, lasting: bool = False) -> None:
        """Begins to send a message, whose bytes stay as they are until that is done.

        Those of a lasting one stay as they are afterwards.
        """
        first = memoryview(self._said(len(data), transfer.tag) + bytes(data[:_RECORD]))
        rest = data[_RECORD:]
        self._numbered += 1
        self.sent += len(data)
        size = _kept_size(len(data))
        is_kept = self._reconnector is not None and self._kept_bytes + size <= KEPT
        if rest and is_kept and not lasting:
            rest = memoryview(bytes(rest))
        frame = _Frame([first, rest] if rest else [first], transfer, size, is_kept)
        if self._reconnector is not None:
            self._kept.append(frame)
            self._kept_bytes += size * is_kept
        if not self.is_away:
            self._queue(frame)

    def progress(self) -> bool:
        """Sends and receives what can be now; returns whether that was anything.

        Raises:
            PartyLostError: the connection broke and none takes its place, or another message came.
        """
        return self._work(receives=True)

    def push(self) -> bool:
        """Sends what can be now; returns whether that was anything.

        Raises:
            PartyLostError: the connection broke and none takes its place.
        """
        return bool(self.out) and self._work(receives=False)

    def _work(self, *, receives: bool) -> bool:
        self.wants = 0
        if self.connection is None:
            assert self._reconnector is not None
            if verdict := self._reconnector.verdict(self.rank):
                raise PartyLostError(self.rank, verdict)
            return False
        try:
            sent = bool(self.out) and self._send(self.connection)
            received = receives and self._receive(self.connection)
        except OutOfTurnError as error:
            raise PartyLostError(self.rank, f"sent {error}") from error
        except (OSError, ValueError) as error:  # a closed socket raises a ValueError
            reason = f"closed its connection: {getattr(error, 'reason', None) or error}"
            if self._reconnector is None:
                raise PartyLostError(self.rank, reason) from error
            self._reconnector.lose(self.rank, reason)
            self._leave()
            return True
        return sent or received

    def resume(self, connection: ssl.SSLSocket) -> None:
        """Goes on over another connection: what was not received is sent again."""
        assert self._reconnector is not None
        self._reconnector.watch(self.rank, connection)
        self._leave()
        self.connection, self._is_resuming, self.may_read = connection, True, True
        self._target, self._in_body = self._header, False
        self.acknowledge()

    def acknowledge(self) -> None:
        """The other end is told how many frames were received, without one of its own number."""
        self.out.append((memoryview(self._said(0, _RECEIVED)), None))

    def _said(self, length: int, tag: int) -> bytes:
        """Returns the header of what is put next."""
        self._unsaid = 0
        return HEADER.pack(length, tag, self._numbered % _NUMBERS, self._complete % _NUMBERS)

    def close(self) -> None:
        """The connection is closed."""
        if self.connection is not None:
            cut(self.connection)
            self.connection.close()

    def _leave(self) -> None:
        """The connection is closed, and nothing is on its way any more."""
        self._earlier = self.carried
        self.close()
        self.connection = None
        self.out.clear()

    def _queue(self, frame: _Frame) -> None:
        *before, last = frame.parts
        self.out += [(part, None) for part in before]
        self.out.append((last, frame))

    def _send(self, connection: ssl.SSLSocket) -> bool:
        moved = 0
        while self.out and moved < _SLICE:
            data, frame = self.out[0]
            try:
                count = connection.send(data[:_SLICE])
            except ssl.SSLWantWriteError:
                self.wants |= select.POLLOUT
                break
            except ssl.SSLWantReadError:
                self.wants |= select.POLLIN
                break
            moved += count
            if count < len(data):
                self.out[0] = (data[count:], frame)
                continue
            self.out.popleft()
            if frame is not None:
                frame.transfer.done = True
                if not frame.is_kept:
                    self._forget(frame)
        return moved > 0

    def _receive(self, connection: ssl.SSLSocket) -> bool:
        moved, receive = 0, connection.recv_into
        try:
            while (self.due or self._is_resuming) and self.may_read and moved < _SLICE:
                target = self._target
                while target and moved < _SLICE:  # a record of TLS at a time
                    count = receive(target)
                    if not count:
                        raise ConnectionResetError("without a word")
                    moved += count
                    self._target = target = target[count:]
                if not target:
                    self._take()
        except ssl.SSLWantReadError:
            self.may_read = False
        except ssl.SSLWantWriteError:
            self.wants |= select.POLLOUT
        if not (self.due or self._is_resuming):
            self.may_read = connection.pending() > 0
        elif not self.may_read:
            self.wants |= select.POLLIN
        return moved > 0

    def _take(self) -> None:
        """A header is there, or a message."""
        if self._in_body:
            self.due.popleft().done = True
            self.received += self._length
            self._complete += 1
            self._unsaid += self._length
            self._target, self._in_body = self._header, False
            if self._reconnector is not None and self._unsaid >= _SAID:
                self.acknowledge()
            return
        length, tag, number, received = HEADER.unpack(self._header)
        if self._is_resuming:
            self._go_on(length, tag, number, received)
            return
        is_said = self._reconnector is not None and tag == _RECEIVED and not length
        transfer = self.due[0]
        assert transfer.into is not None
        if number != self._complete % _NUMBERS or (tag != transfer.tag and not is_said):
            raise OutOfTurnError(f"a message {tag} of {length} bytes out of turn")
        if self._reconnector is not None:
            self._acknowledge(received)
        if is_said:
            self._target = self._header
            return
        self._target, self._in_body, self._length = transfer.into(length), True, length
        if len(self._target) != length:
            raise OutOfTurnError(f"{length} bytes where {len(self._target)} were expected")
        if not length:
            self._take()

    def _go_on(self, length: int, tag: int, number: int, received: int) -> None:
        """The other end has said how far it came: what it lacks goes again."""
        ahead = (number - self._complete) % _NUMBERS
        if length or tag != _RECEIVED or ahead >= _NUMBERS // 2:
            raise OutOfTurnError(f"a message {tag} of {length} bytes in place of what it received")
        if not self._acknowledge(received):
            raise OutOfTurnError("that it lacks frames which are gone")
        self._target, self._is_resuming = self._header, False
        for frame in self._kept:
            self._queue(frame)

    def _acknowledge(self, received: int) -> bool:
        """The other end has so many frames; returns whether all that it lacks are kept."""
        behind = (received - self._kept_from) % _NUMBERS
        if behind > len(self._kept):
            if behind < _NUMBERS // 2:
                raise OutOfTurnError("that it received frames which were never sent")
            return False  # it said so before frames were forgotten, or some were sent again
        for _ in range(behind):
            if not self._pop().transfer.done:
                raise OutOfTurnError("that it received frames which were never sent")
        return True

    def _forget(self, frame: _Frame) -> None:
        """This frame and those before it are kept no more."""
        while self._kept and self._pop() is not frame:
            pass

    def _pop(self) -> _Frame:
        frame = self._kept.popleft()
        self._kept_from += 1
        self._kept_bytes -= frame.size * frame.is_kept
        return frame


def _kept_size(length: int) -> int:
    """Returns what keeping a frame takes."""
    return HEADER.size + length + _SPARE
