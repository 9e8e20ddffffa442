"""Frames between a party and the dealer open once, in their order, and at the other end alone."""

import os
import socket
from collections.abc import Callable, Iterator

import pytest

from crypten_ext.dealer.connection import BrokenFrameError, Link
from crypten_ext.dealer.connection.handshake import PROOF, Guest, Visit

SIZE = 1 << 16


class Connection:
    """A party's link and the dealer's, with the dealer's socket for whoever meddles."""

    def __init__(self, rank: int) -> None:
        near, self.wire = socket.socketpair()
        guest, visit = Guest(rank, 2), Visit(2, {})
        own = guest.seat(visit.hear(guest.hello()))
        assert visit.hear(own.frames.seal(PROOF)) == b""
        assert visit.seat is not None
        assert (visit.seat.rank, visit.seat.public) == (rank, own.public)
        self.party, self.partys_key = Link(near, own.frames), own.key
        self.dealer, self.dealers_key = Link(self.wire, visit.seat.frames), visit.seat.key

    def frame(self, message: bytes) -> bytes:
        """Returns the party's next frame, which the dealer does not read."""
        self.party.send(message)
        return self.wire.recv(SIZE)


@pytest.fixture
def connections() -> Iterator[list[Connection]]:
    both = [Connection(rank) for rank in range(2)]
    yield both
    for connection in both:
        connection.party.close()
        connection.dealer.close()


def test_messages_arrive_in_both_directions_and_keys_of_tuples_agree(connections):
    for connection in connections:
        for message in (b"one", b"two"):
            connection.party.send(message)
            assert connection.dealer.receive() == message
            connection.dealer.send(message)
            assert connection.party.receive() == message
        assert connection.partys_key == connection.dealers_key
    assert connections[0].partys_key != connections[1].partys_key


def test_neither_way_changes_how_the_other_one_waits(connections):
    """Both have one descriptor: what sends must not make a read that waits fail with EAGAIN."""
    one, modes = connections[0], []
    for message in (b"first", b"second"):
        one.party.send(message)
        modes.append(os.get_blocking(one.party.fileno()))
        with pytest.raises(TimeoutError):
            one.party.receive(1e-3)
        one.dealer.send(one.dealer.receive())
        assert one.party.receive() == message
        modes.append(os.get_blocking(one.party.fileno()))
        one.party.send_at_once(message)
        assert one.dealer.receive() == message
        modes.append(os.get_blocking(one.party.fileno()))
    assert len(set(modes)) == 1


def reflect(one: Connection, other: Connection) -> Link:
    """The party gets its own frame back, when a frame of that number is due."""
    one.dealer.send(b"theirs")
    assert one.party.receive() == b"theirs"
    assert one.party.frames.sent == one.party.frames.received
    one.wire.sendall(one.frame(b"mine"))
    return one.party


def repeat(one: Connection, other: Connection) -> Link:
    """The dealer gets a frame twice."""
    frame = one.frame(b"mine")
    for _ in range(2):
        one.party.stream._connection.sendall(frame)
    assert one.dealer.receive() == b"mine"
    return one.dealer


def leave_out(one: Connection, other: Connection) -> Link:
    """The dealer gets the second frame alone."""
    one.frame(b"lost")
    one.party.send(b"mine")
    return one.dealer


def cross(one: Connection, other: Connection) -> Link:
    """The dealer gets another party's frame."""
    one.party.stream._connection.sendall(other.frame(b"theirs"))
    return one.dealer


@pytest.mark.parametrize("meddle", [reflect, repeat, leave_out, cross])
def test_a_frame_out_of_place_is_refused(
    connections: list[Connection], meddle: Callable[[Connection, Connection], Link]
):
    with pytest.raises(BrokenFrameError, match="altered on its way"):
        meddle(*connections).receive()
