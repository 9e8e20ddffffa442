"""Messages between hosts that are connected in pairs, sent and received in the calling thread.

Messages of one connection arrive in the order in which they were sent, and are received in the
order in which they were asked for. While anything is waited for, all that can be sent is sent and
all that can be received is received, so that large messages in both directions never wait for each
other.
"""

from __future__ import annotations

import select
import ssl
from collections.abc import Callable, Collection, Iterable, Mapping

from extensions.errors import ArgumentError
from extensions.transport.endpoint import LARGEST, Endpoint, OutOfTurnError, Transfer
from extensions.transport.reconnecting import Reconnector

_LOOK = 200
"""Milliseconds between two looks for a host whose connection broke."""


class Unsized(Transfer):
    """A message on its way here, whose length its sender says.

    Args:
        wait: of the mesh.
        tag: that it is received by.
        limit: bytes that it may have.

    Attributes:
        message: once it is there.
    """

    def __init__(self, wait: Callable[[Iterable[Transfer]], None], tag: int, limit: int) -> None:
        super().__init__(wait, tag, self._room)
        self._limit = limit
        self.message = bytearray()

    def _room(self, length: int) -> memoryview:
        if length > self._limit:
            raise OutOfTurnError(f"{length} bytes, more than {self._limit}")
        self.message = bytearray(length)  # once more if it comes again
        return memoryview(self.message)


class Mesh:
    """The connections of one host to all others of a run.

    Args:
        rank: of this host.
        connections: by rank, which do not block.
        reconnector: how connections that break are replaced; None: whose connection breaks is lost.

    Attributes:
        rounds: messages that were waited for, those that were waited for together counted once.

    Guarantees:
        no memory is taken for what was not asked for. What was sent is kept until it is
        acknowledged, `extensions.transport.endpoint.KEPT` bytes a host at most, where connections
        are replaced, and nowhere else. Every message is received once, in its place.
    """

    def __init__(
        self,
        rank: int,
        connections: Mapping[int, ssl.SSLSocket],
        reconnector: Reconnector | None = None,
    ) -> None:
        self.rank = rank
        self.rounds = 0
        self._reconnector = reconnector
        self._ends = {
            other: Endpoint(other, one, reconnector) for other, one in connections.items()
        }
        if reconnector is not None:
            for other, one in connections.items():
                reconnector.watch(other, one)

    @property
    def others(self) -> list[int]:
        """The ranks at the other ends."""
        return [*self._ends]

    @property
    def descriptors(self) -> dict[int, int]:
        """The descriptor of each connection's file, by rank; of those that are open."""
        ends = self._ends.values()
        return {end.rank: end.connection.fileno() for end in ends if end.connection is not None}

    @property
    def payload(self) -> tuple[int, int]:
        """Bytes of messages that were sent and received, without what TLS and frames add."""
        ends = self._ends.values()
        return sum(end.sent for end in ends), sum(end.received for end in ends)

    def carried(self, ranks: Collection[int]) -> tuple[int, int]:
        """Returns the bytes that were sent to and received from these ranks, as the kernel counts.

        Those of connections that broke are in it, and those of handshakes.
        """
        counts = [self._ends[rank].carried for rank in ranks]
        return sum(sent for sent, _ in counts), sum(received for _, received in counts)

    def send(self, rank: int, data: memoryview, tag: int = 0, *, lasting: bool = False) -> Transfer:
        """Begins to send a message, whose bytes stay as they are until that is done.

        Args:
            rank: of the other host.
            data: the message.
            tag: that the other end receives it by.
            lasting: whether its bytes stay as they are for as long as anybody has them.

        Cost:
            Its bytes, 16 more, and 22 a 16 KiB for TLS; and, where connections are replaced, a
            copy, unless they are lasting.

        Raises:
            ArgumentError: it has 4 GiB or more.
        """
        end, transfer = self._ends[rank], Transfer(self.wait, tag)
        data = _bytes(data)
        if len(data) > LARGEST:
            allowed = f"at most {LARGEST} bytes"
            raise ArgumentError("data", f"{len(data)} bytes", allowed, code="range")
        end.put(data, transfer, lasting=lasting)
        if 0 < len(end.out) <= 2:
            end.push()
        return transfer

    def receive(self, rank: int, into: memoryview, tag: int = 0) -> Transfer:
        """Begins to receive a message of exactly so many bytes."""
        target = _bytes(into)
        transfer = Transfer(self.wait, tag, lambda _: target)
        self._ends[rank].due.append(transfer)
        return transfer

    def receive_any(self, rank: int, limit: int, tag: int = 0) -> bytes:
        """Returns the next message, of at most `limit` bytes."""
        found = self.expect(rank, limit, tag)
        found.wait()
        return bytes(found.message)

    def expect(self, rank: int, limit: int, tag: int = 0) -> Unsized:
        """Begins to receive a message of at most `limit` bytes."""
        found = Unsized(self.wait, tag, limit)
        self._ends[rank].due.append(found)
        return found

    def exchange(
        self,
        send: Mapping[int, memoryview],
        receive: Mapping[int, memoryview],
        *,
        lasting: bool = False,
        behind: Callable[[], None] = lambda: None,
    ) -> None:
        """Sends and receives one message a rank, all at once: one latency.

        Args:
            send: by rank.
            receive: by rank, where its message goes.
            lasting: whether what is sent stays as it is for as long as anybody has it.
            behind: begins to send and receive what is not waited for here.
        """
        waiting = [self.send(rank, data, lasting=lasting) for rank, data in send.items()]
        waiting += [self.receive(rank, into) for rank, into in receive.items()]
        behind()
        self.wait(waiting)

    def wait(self, transfers: Iterable[Transfer]) -> None:
        """Returns once all of them are done; meanwhile others go on as well.

        Raises:
            PartyLostError: a connection broke, or another message came.
        """
        waiting = [one for one in transfers if not one.done]
        self.rounds += any(one.into is not None for one in waiting)
        while waiting:
            if not self.go_on():
                self.sleeper()()
            waiting = [one for one in waiting if not one.done]

    def go_on(self) -> bool:
        """Sends and receives what can be now; returns whether that was anything.

        Raises:
            PartyLostError: as `wait`.
        """
        moved = self._resume()
        for end in self._ends.values():
            if end.out or end.due or end.is_away:
                moved |= end.progress()
        return moved

    def _resume(self) -> bool:
        """Goes on over connections that were dialled again; returns whether there were any."""
        if self._reconnector is None or not self._reconnector.arrived:
            return False
        for rank, connection in self._reconnector.take().items():
            if rank in self._ends:
                self._ends[rank].resume(connection)
            else:
                connection.close()
        return True

    def sleeper(self) -> Callable[[], None]:
        """Returns what waits, as things are now, until it is worth while to go on."""
        poll, patience = select.poll(), None
        ends: dict[int, Endpoint] = {}
        for end in self._ends.values():
            if end.connection is None:
                patience = _LOOK
            elif end.wants:
                ends[end.connection.fileno()] = end
                poll.register(end.connection, end.wants)
        if self._reconnector is not None:
            poll.register(self._reconnector, select.POLLIN)

        def sleep() -> None:
            for descriptor, event in poll.poll(patience):
                if descriptor in ends:
                    ends[descriptor].may_read |= event != select.POLLOUT
                elif self._reconnector is not None:
                    self._reconnector.quiet()

        return sleep

    def push(self, rank: int) -> bool:
        """Sends what can be sent to one host now; returns whether that was anything.

        Raises:
            PartyLostError: as `wait`.
        """
        return self._ends[rank].push()

    def is_away(self, rank: int) -> bool:
        """Whether this host's connection broke and is not there again."""
        return self._ends[rank].is_away

    def has_room(self, rank: int, size: int) -> bool:
        """Whether a message can be kept beside those which this host has not acknowledged."""
        return self._ends[rank].has_room(size)

    def is_acknowledged(self, rank: int) -> bool:
        """Whether this host has said that it has all messages."""
        return self._ends[rank].is_acknowledged

    def is_sent(self, rank: int) -> bool:
        """Whether nothing waits for the connection with this host to take it."""
        return not self._ends[rank].out

    def acknowledge(self, rank: int) -> None:
        """This host is told what has come from it."""
        self._ends[rank].acknowledge()

    def drop(self, rank: int) -> None:
        """The connection with this host is closed, and no other one takes its place."""
        if self._reconnector is not None:
            self._reconnector.forget(rank)
        self._ends.pop(rank).close()

    def wake(self) -> None:
        """What `sleeper` returned waits no longer, in whatever thread."""
        if self._reconnector is not None:
            self._reconnector.wake()

    def on_break(self, call: Callable[[], None]) -> None:
        """What is called whenever a connection breaks that may be replaced; it must not wait."""
        if self._reconnector is not None:
            self._reconnector.on_break = call

    def stop_reconnecting(self) -> None:
        """No connection is replaced any more: who waits for one is told that a host is lost."""
        if self._reconnector is not None:
            self._reconnector.stop()

    def close(self) -> None:
        """All connections are closed."""
        if self._reconnector is not None:
            self._reconnector.close()
        for end in self._ends.values():
            end.close()


def _bytes(data: memoryview) -> memoryview:
    return data.cast("B") if data.nbytes else memoryview(bytearray())
