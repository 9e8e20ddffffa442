"""Messages between hosts that are connected in pairs, sent and received in the calling thread.

A message is a frame: its length, a tag, its bytes. Messages of one connection arrive in the order
in which they were sent, and are received in the order in which they were asked for. While anything
is waited for, all that can be sent is sent and all that can be received is received, so that large
messages in both directions never wait for each other.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from extensions.errors import PartyLostError

LARGEST = 1 << 32
"""Bytes of a message."""
_HEADER = struct.Struct(">QI")
_RECORD = (1 << 14) - _HEADER.size
"""What goes with the header in one record of TLS."""
_SLICE = 1 << 18

Into = Callable[[int], memoryview]


class _OutOfTurnError(Exception):
    """A message came that nobody asked for."""


class Transfer:
    """A message on its way.

    Attributes:
        done: whether its memory may be used again; of one that is received, whether it is there.
    """

    def __init__(self, mesh: Mesh, tag: int, into: Into | None = None) -> None:
        self._mesh = mesh
        self.tag, self.into = tag, into
        self.done = False

    def wait(self) -> None:
        """Returns once it is done.

        Raises:
            PartyLostError: the connection broke, or another message came.
        """
        self._mesh.wait([self])


class _End:
    """One connection, and what is on its way there."""

    def __init__(self, rank: int, connection: ssl.SSLSocket) -> None:
        self.rank, self.connection = rank, connection
        self.out: deque[tuple[memoryview, Transfer | None]] = deque()
        self.due: deque[Transfer] = deque()
        self.sent = self.received = 0
        self._header = memoryview(bytearray(_HEADER.size))
        self._target = self._header
        self._in_body = False
        self.wants = 0
        """Events of poll(2) without which it cannot go on."""

    def progress(self) -> bool:
        """Sends and receives what can be now; returns whether that was anything."""
        self.wants = 0
        try:
            sent = bool(self.out) and self._send()
            received = bool(self.due) and self._receive()
        except _OutOfTurnError as error:
            raise PartyLostError(self.rank, f"sent {error}") from error
        except (OSError, ValueError) as error:  # a closed socket raises a ValueError
            reason = getattr(error, "reason", None) or error
            raise PartyLostError(self.rank, f"closed its connection: {reason}") from error
        return sent or received

    def _send(self) -> bool:
        moved = 0
        while self.out and moved < _SLICE:
            data, transfer = self.out[0]
            try:
                count = self.connection.send(data[:_SLICE])
            except ssl.SSLWantWriteError:
                self.wants |= select.POLLOUT
                break
            except ssl.SSLWantReadError:
                self.wants |= select.POLLIN
                break
            moved += count
            if count < len(data):
                self.out[0] = (data[count:], transfer)
                continue
            self.out.popleft()
            if transfer is not None:
                transfer.done = True
        return moved > 0

    def _receive(self) -> bool:
        moved = 0
        while self.due and moved < _SLICE:
            if self._target:
                try:
                    count = self.connection.recv_into(self._target)
                except ssl.SSLWantReadError:
                    self.wants |= select.POLLIN
                    break
                except ssl.SSLWantWriteError:
                    self.wants |= select.POLLOUT
                    break
                if not count:
                    raise ConnectionResetError("without a word")
                moved += count
                self._target = self._target[count:]
            if not self._target:
                self._complete()
        return moved > 0

    def _complete(self) -> None:
        transfer = self.due[0]
        if self._in_body:
            self.due.popleft()
            transfer.done = True
            self._target, self._in_body = self._header, False
            return
        length, tag = _HEADER.unpack(self._header)
        assert transfer.into is not None
        if length > LARGEST or tag != transfer.tag:
            raise _OutOfTurnError(f"a message {tag} of {length} bytes out of turn")
        self._target, self._in_body = transfer.into(length), True
        if len(self._target) != length:
            raise _OutOfTurnError(f"{length} bytes where {len(self._target)} were expected")
        self.received += length
        if not length:
            self._complete()


class Mesh:
    """The connections of one host to all others of a run.

    Args:
        rank: of this host.
        connections: by rank, which do not block.

    Attributes:
        rounds: messages that were waited for, those that were waited for together counted once.

    Guarantees:
        no thread is started, and no memory is taken for what was not asked for.
    """

    def __init__(self, rank: int, connections: Mapping[int, ssl.SSLSocket]) -> None:
        self.rank = rank
        self.rounds = 0
        self._ends = {other: _End(other, one) for other, one in connections.items()}
        self._by_descriptor = {end.connection.fileno(): end for end in self._ends.values()}

    @property
    def others(self) -> list[int]:
        """The ranks at the other ends."""
        return [*self._ends]

    @property
    def descriptors(self) -> dict[int, int]:
        """The descriptor of each connection's file, by rank."""
        return {end.rank: descriptor for descriptor, end in self._by_descriptor.items()}

    @property
    def payload(self) -> tuple[int, int]:
        """Bytes of messages that were sent and received, without what TLS and frames add."""
        ends = self._ends.values()
        return sum(end.sent for end in ends), sum(end.received for end in ends)

    def send(self, rank: int, data: memoryview, tag: int = 0) -> Transfer:
        """Begins to send a message, whose bytes stay as they are until that is done.

        Cost:
            Its bytes, 12 more, and 22 a 16 KiB for TLS.
        """
        end, transfer = self._ends[rank], Transfer(self, tag)
        data = _bytes(data)
        first = memoryview(_HEADER.pack(len(data), tag) + bytes(data[:_RECORD]))
        rest = data[_RECORD:]
        end.sent += len(data)
        if rest:
            end.out += [(first, None), (rest, transfer)]
        else:
            end.out.append((first, transfer))
        if len(end.out) <= 2:
            end.progress()
        return transfer

    def receive(self, rank: int, into: memoryview, tag: int = 0) -> Transfer:
        """Begins to receive a message of exactly so many bytes."""
        target = _bytes(into)
        return self._receive(rank, lambda _: target, tag)

    def receive_any(self, rank: int, limit: int, tag: int = 0) -> bytes:
        """Returns the next message, of at most `limit` bytes."""
        found = bytearray()

        def take(length: int) -> memoryview:
            if length > limit:
                raise _OutOfTurnError(f"{length} bytes, more than {limit}")
            found.extend(bytes(length))
            return memoryview(found)

        self._receive(rank, take, tag).wait()
        return bytes(found)

    def _receive(self, rank: int, into: Into, tag: int) -> Transfer:
        transfer = Transfer(self, tag, into)
        self._ends[rank].due.append(transfer)
        return transfer

    def exchange(self, send: Mapping[int, memoryview], receive: Mapping[int, memoryview]) -> None:
        """Sends and receives one message a rank, all at once: one latency."""
        waiting = [self.send(rank, data) for rank, data in send.items()]
        waiting += [self.receive(rank, into) for rank, into in receive.items()]
        self.wait(waiting)

    def wait(self, transfers: Iterable[Transfer]) -> None:
        """Returns once all of them are done; meanwhile others go on as well.

        Raises:
            PartyLostError: a connection broke, or another message came.
        """
        waiting = [one for one in transfers if not one.done]
        self.rounds += any(one.into is not None for one in waiting)
        while waiting := [one for one in waiting if not one.done]:
            moved = False
            for end in self._ends.values():
                if end.out or end.due:
                    moved |= end.progress()
            if not moved:
                self._sleep()

    def _sleep(self) -> None:
        poll = select.poll()
        for descriptor, end in self._by_descriptor.items():
            if end.wants:
                poll.register(descriptor, end.wants)
        poll.poll()

    def close(self) -> None:
        """All connections are closed."""
        for end in self._ends.values():
            with suppress(OSError):
                end.connection.shutdown(socket.SHUT_RDWR)
            end.connection.close()


def _bytes(data: memoryview) -> memoryview:
    return data.cast("B") if data.nbytes else memoryview(bytearray())
