"""Messages over real connections of TLS: order, size, both directions at once, and losses."""

from contextlib import suppress

import numpy as np
import pytest

from extensions.errors import PartyLostError
from extensions.runs.processes.credentials import federation_of
from extensions.transport import Listener, Local, Mesh, connect_to
from extensions.transport.endpoint import HEADER
from extensions.transport.kernel import carried
from tests.helpers.crowds import MANY
from tests.helpers.federations import RUN, at_once, identities, listeners, meshes
from tests.helpers.patience import PATIENCE

MIB = 1 << 20


@pytest.fixture
def three(tmp_path):
    """The meshes of three parties."""
    found = meshes(tmp_path, 3)
    yield found
    for mesh in found:
        mesh.close()


@pytest.fixture
def two(tmp_path):
    """The meshes of two parties."""
    found = meshes(tmp_path, 2)
    yield found
    for mesh in found:
        mesh.close()


def everyone(found, words):
    """Each sends words of its own to every other; returns what each received."""

    def task(mesh):
        own = np.full(words, mesh.rank, np.int64)
        theirs = {other: np.full(words, -1, np.int64) for other in mesh.others}
        mesh.exchange(
            {other: memoryview(own) for other in mesh.others},
            {other: memoryview(each) for other, each in theirs.items()},
        )
        return {other: np.unique(each).tolist() for other, each in theirs.items()}

    return at_once(*(lambda mesh=mesh: task(mesh) for mesh in found))


@pytest.mark.parametrize("words", [1, 2046, 2047, 4096, 100_000])
def test_all_send_to_all(three, words):
    for rank, received in enumerate(everyone(three, words)):
        assert received == {other: [other] for other in range(3) if other != rank}
    assert {mesh.rounds for mesh in three} == {1}
    assert {mesh.payload for mesh in three} == {(16 * words, 16 * words)}


def test_large_messages_in_both_directions_do_not_wait_for_each_other(two):
    words = 4 * MIB  # 32 MiB, more than the kernel keeps of a connection
    assert everyone(two, words) == [{1: [1]}, {0: [0]}]


def test_payload_is_what_the_kernel_counts_within_a_hundredth(two):
    before = [carried(mesh.descriptors.values()) for mesh in two]
    everyone(two, MIB)
    for mesh, (sent, received) in zip(two, before, strict=True):
        now = carried(mesh.descriptors.values())
        for payload, wire in zip(mesh.payload, (now[0] - sent, now[1] - received), strict=True):
            assert payload == 8 * MIB
            # A record of TLS 1.3 has 22 bytes more; one more record takes the header.
            assert wire == payload + 16 + 22 * (8 * MIB // (1 << 14) + 1)
            assert wire <= 1.01 * payload


def test_messages_keep_their_order_and_tags(two):
    first, second = two
    texts = [bytes([number]) * (number * 7000) for number in range(20)]
    sent = [first.send(1, memoryview(text), number) for number, text in enumerate(texts)]
    found = [bytearray(len(text)) for text in texts]
    due = [second.receive(0, memoryview(one), number) for number, one in enumerate(found)]
    at_once(lambda: second.wait(due), lambda: first.wait(sent))
    assert [bytes(one) for one in found] == texts
    first.send(1, memoryview(b"object"), 7)
    assert second.receive_any(0, 10, 7) == b"object"
    assert second.payload == first.payload[::-1]


def test_a_slow_reader_takes_no_memory_of_the_sender_but_the_message(two):
    first, second = two
    data = bytes(64 * MIB)
    sending = first.send(1, memoryview(data))
    assert not sending.done
    into = bytearray(len(data))
    at_once(lambda: second.receive(0, memoryview(into)).wait(), sending.wait)
    assert sending.done


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda mesh: mesh.send(0, memoryview(bytes(9))), "sent 9 bytes where 8 were expected"),
        (lambda mesh: mesh.send(0, memoryview(bytes(8)), 5), "a message 5 of 8 bytes out of turn"),
        (lambda mesh: mesh.close(), "closed its connection"),
        (
            lambda mesh: mesh._ends[0].connection.send(HEADER.pack(8, 0, 1, 0)),
            "out of turn",
        ),
        (lambda mesh: mesh._ends[0].connection.unwrap(), "closed its connection"),
    ],
    ids=["length", "tag", "closed", "number", "end of TLS"],
)
def test_another_message_or_none_names_the_party(two, act, reason):
    first, second = two
    with suppress(OSError):  # the end of TLS waits for the other end's
        act(second)
    with pytest.raises(PartyLostError, match=reason) as raised:
        first.receive(1, memoryview(bytearray(8))).wait()
    assert raised.value.rank == 1


def test_a_message_that_was_cut_off_names_the_party(two):
    first, second = two
    second._ends[0].connection.send(HEADER.pack(8, 0, 0, 0) + b"1234")
    second.close()
    with pytest.raises(PartyLostError, match="party 1 closed its connection"):
        first.receive(1, memoryview(bytearray(8))).wait()


def test_an_object_above_its_limit_is_refused_before_memory_is_taken(two):
    first, second = two
    second.send(0, memoryview(bytes(11)))
    with pytest.raises(PartyLostError, match="sent 11 bytes, more than 10"):
        first.receive_any(1, 10)


@pytest.mark.parametrize("number", [500, MANY])
def test_no_frames_break_a_receiver(tmp_path, number):
    draws = np.random.default_rng(11)
    own, (place, other) = identities(tmp_path, "p0", "p1"), listeners(2)
    federation = federation_of(own, [place, other])
    here, there = (Local(one, federation) for one in own)
    kept = 0
    with other, Listener(here, place, ["run"]) as door:
        door.begin(RUN)
        for _ in range(number):
            dialled = connect_to(there, federation.members[0], "run", RUN, seconds=PATIENCE)
            taken = door.take(federation.members[1], "run", PATIENCE)
            with dialled.connection as connection:
                connection.send(_frame(draws))
            mesh, into = Mesh(0, {1: taken.connection}), bytearray(8)
            with suppress(PartyLostError):
                mesh.receive(1, memoryview(into)).wait()
                kept += 1
                mesh = Mesh(0, {1: taken.connection})  # what follows is no frame
            with pytest.raises(PartyLostError) as raised:
                mesh.receive(1, memoryview(into)).wait()
            assert raised.value.rank == 1
            mesh.close()
    assert 0 < kept < number / 2


def _frame(draws) -> bytes:
    """Returns bytes that are a frame of 8 bytes now and then, or else none."""
    kind = draws.integers(4)
    if kind == 0:
        return draws.bytes(int(draws.integers(1, 64)))
    tag, length = int(draws.integers(2)), int(draws.choice([0, 7, 8, 9, 1 << 31]))
    number, received = (int(one) for one in draws.choice([0, 0, 0, 1, (1 << 32) - 1], 2))
    return HEADER.pack(length, tag, number, received) + draws.bytes(int(draws.integers(1, 20)))
