"""Connections that break while messages are on their way, and come back, or not."""

import socket
import time
from functools import partial

import numpy as np
import pytest

from extensions.errors import PartyLostError
from extensions.runs.processes.credentials import federation_of
from extensions.transport import Local, RejectedError
from extensions.transport.endpoint import HEADER, KEPT
from extensions.transport.handshake import again
from extensions.transport.reconnecting import Reconnector
from tests.helpers.cable import cuts_of
from tests.helpers.federations import at_once, cabled, identities, listeners
from tests.helpers.patience import PATIENCE, wait_until

LONG = [pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 30)]
RECEIVED = 0xFFFFFFFF


def exchanged(link, draws, rounds, largest):
    """Both send messages of random lengths at once, each of which must come once.

    Returns how many bytes each has sent.
    """
    sizes = draws.integers(1, largest, (rounds, 2)).tolist()
    texts = [[draws.bytes(size) for size in both] for both in sizes]

    def party(rank):
        try:
            return work(rank)
        except BaseException:
            link.give_up()  # the other one waits for nothing
            raise

    def work(rank):
        mesh, other = link.meshes[rank], 1 - rank
        for number, both in enumerate(texts):
            into, sent = bytearray(len(both[other])), bytearray(both[rank])
            sending = mesh.send(other, memoryview(sent), number)
            mesh.wait([sending, mesh.receive(other, memoryview(into), number)])
            sent[:] = bytes(len(sent))  # its memory may be used again
            assert into == both[other]
        return True

    assert at_once(lambda: party(0), lambda: party(1)) == [True, True]
    return [sum(one) for one in zip(*sizes, strict=True)]


def say(mesh, text):
    """Sends it to the other one."""
    mesh.send(mesh.others[0], memoryview(text)).wait()


def hear(mesh):
    """Returns what the other one says next."""
    return mesh.receive_any(mesh.others[0], 100)


@pytest.mark.parametrize("seed", [0, *LONG])
def test_a_connection_that_breaks_anywhere_goes_on_and_every_message_comes_once(tmp_path, seed):
    with cabled(tmp_path) as link:
        link.cable.limit = cuts_of(seed, 12, 2500, 200_000)
        link.cable.reset()
        sent = exchanged(link, np.random.default_rng(seed + 1000), 60, 100_000)
        assert [mesh.payload for mesh in link.meshes] == [tuple(sent), tuple(sent[::-1])]
        assert {mesh.rounds for mesh in link.meshes} == {60}
        assert len(link.cable.carried) >= 14
        for mesh in link.meshes:
            assert mesh.carried(mesh.others)[0] > mesh.payload[0]  # all connections together


def test_who_only_waits_takes_the_connection_that_the_other_end_dials_again(tmp_path):
    """As behind a translator of addresses that forgot it: one end alone is told."""
    with cabled(tmp_path) as link:
        waiting, other = link.meshes
        (old,) = waiting.descriptors.values()

        def answer():
            link.cable.reset(ends=(0,))
            wait_until(lambda: len(link.cable.carried) == 2)
            return say(other, b"over another one")

        assert at_once(lambda: hear(waiting), answer)[0] == b"over another one"
        assert [*waiting.descriptors.values()] != [old]


def test_who_computes_meanwhile_goes_on_afterwards(tmp_path):
    """The other end is waited for by its threads alone, longer than anybody may be away."""
    with cabled(tmp_path, seconds=1.0) as link:
        computing, waiting = link.meshes
        say(computing, b"before")
        link.cable.reset()

        def compute():
            wait_until(lambda: len(link.cable.carried) == 2)
            time.sleep(1.5)  # what is computed; a wait is all that is tested
            return say(computing, b"after")

        heard = at_once(lambda: [hear(waiting), hear(waiting)], compute)[0]
        assert heard == [b"before", b"after"]


def test_a_connection_that_breaks_again_while_one_computes_is_replaced_again(tmp_path):
    """The one that dials takes none of them meanwhile, longer than anybody may be away."""
    with cabled(tmp_path, seconds=2.0) as link:
        waiting, computing = link.meshes

        def compute():
            for number in (2, 3):
                link.cable.reset()
                wait_until(lambda number=number: len(link.cable.carried) == number)
                wait_until(lambda: link.returning[1].arrived)
            time.sleep(2.5)  # what is computed; a wait is all that is tested
            return say(computing, b"after")

        assert at_once(lambda: hear(waiting), compute)[0] == b"after"


@pytest.mark.parametrize("lost", [0, 1], ids=["who answered", "who dialled"])
def test_who_is_not_back_in_time_is_named(tmp_path, lost):
    with cabled(tmp_path, seconds=0.5) as link:
        link.cable.is_out = True
        link.cable.reset()
        with pytest.raises(PartyLostError, match=f"party {lost} .*not back within 0.5 s") as raised:
            hear(link.meshes[1 - lost])
        assert raised.value.rank == lost


def test_nobody_is_waited_for_once_the_run_ends(tmp_path):
    with cabled(tmp_path) as link:
        link.cable.is_out = True
        link.cable.reset()
        link.meshes[0].stop_reconnecting()
        with pytest.raises(PartyLostError, match="party 1 closed its connection"):
            hear(link.meshes[0])


def test_nobody_is_dialled_any_more_once_the_run_ends(tmp_path):
    """Though somebody listens there, who breaks off each time."""
    with cabled(tmp_path, seconds=10 * PATIENCE) as link:
        link.cable.is_out = True
        link.cable.reset()
        wait_until(lambda: link.returning[1]._dialling)
        link.meshes[1].stop_reconnecting()
        wait_until(lambda: not link.returning[1]._dialling, "the end of the thread that dials")


@pytest.mark.parametrize(
    "alter",
    [
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data + data,
        lambda data: bytes(100) + data,
    ],
    ids=["altered", "repeated", "injected"],
)
def test_what_others_do_on_the_way_breaks_the_connection_and_never_arrives(tmp_path, alter):
    with cabled(tmp_path) as link:
        seen = []

        def once_in_a_while(data):
            seen.append(data)
            return alter(data) if len(seen) in (5, 45) else data

        link.cable.alter = once_in_a_while
        exchanged(link, np.random.default_rng(3), 40, 20_000)
        assert len(link.cable.carried) >= 2


def test_nobody_else_takes_the_place_of_a_connection(tmp_path):
    with cabled(tmp_path) as link:
        say(link.meshes[1], b"once")
        assert hear(link.meshes[0]) == b"once"
        before = link.meshes[0].descriptors
        with pytest.raises(RejectedError, match="expected the run"):
            link.dial(1, PATIENCE, run=bytes(32))
        with link.dial(2, PATIENCE) as other:  # a member, but not of this pair
            other.settimeout(120.0)
            assert not other.recv(1), "it is let go at once"
        with socket.create_connection(link.cable.target) as replay:
            replay.sendall(bytes(link.cable.carried[0]))
            while replay.recv(4096):
                pass
        wait_until(lambda: len(link.doors[0].refused) >= 2)
        say(link.meshes[1], b"twice")
        assert hear(link.meshes[0]) == b"twice"
        assert link.meshes[0].descriptors == before


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ((0, RECEIVED, 5, 3), "it received frames which were never sent"),
        ((0, RECEIVED, 0, 2), "in place of what it received"),
        ((0, 0, 1, 1), "in place of what it received"),
        ((8, RECEIVED, 1, 1), "in place of what it received"),
        ((0, RECEIVED, 2, 0), "it lacks frames which are gone"),
    ],
    ids=["more than was sent", "fewer than came", "a message", "a length", "less than before"],
)
def test_a_party_that_comes_back_with_other_numbers_is_named(tmp_path, said, reason):
    """Two messages came to party 0, which has acknowledged both, and one to party 1, likewise."""
    with cabled(tmp_path) as link:
        first, second = link.meshes
        for mesh in (second, first, second):
            say(mesh, b"a word")
            hear(link.meshes[1 - mesh.rank])
        say(first, b"kept")
        second.close()
        with link.dial(1, PATIENCE) as liar:
            liar.send(HEADER.pack(*said))
            with pytest.raises(PartyLostError, match=reason):
                hear(first)


def test_a_party_that_has_what_was_put_but_never_sent_is_named(tmp_path):
    with cabled(tmp_path) as link:
        first, second = link.meshes
        first.expect(1, 100)
        second.stop_reconnecting()  # itself; the liar comes in its place
        second.close()
        while not first.is_away(1):
            if not first.go_on():
                first.sleeper()()
        sending = first.send(1, memoryview(b"a word"))
        with link.dial(1, PATIENCE) as liar:
            liar.send(HEADER.pack(0, RECEIVED, 0, 1))
            with pytest.raises(PartyLostError, match="it received frames which were never sent"):
                sending.wait()


@pytest.mark.parametrize("number", [0, 1, 3], ids=["the first", "the last", "one to come"])
def test_a_message_whose_number_is_not_due_is_never_received(tmp_path, number):
    """Two messages came to party 0; whoever sends one of them again is named."""
    with cabled(tmp_path) as link:
        first, second = link.meshes
        for _ in range(2):
            say(second, b"a word")
            hear(first)
        second.close()
        with link.dial(1, PATIENCE) as liar:
            liar.send(HEADER.pack(0, RECEIVED, 2, 0) + HEADER.pack(6, 0, number, 0) + b"a word")
            with pytest.raises(PartyLostError, match="a message 0 of 6 bytes out of turn"):
                hear(first)


def test_what_comes_one_way_alone_is_acknowledged_in_between(tmp_path):
    """So that a connection that breaks goes on, however much one end has said before."""
    with cabled(tmp_path) as link:
        first, second = link.meshes
        (end,) = first._ends.values()
        first.expect(1, 1)  # it listens, though nothing comes
        for number in range(6):
            if number == 3:
                link.cable.reset()
            message = bytes([number]) * (KEPT // 3)
            coming = second.expect(0, KEPT)
            first.send(1, memoryview(message), lasting=True)

            def work(mesh):
                while not end.is_acknowledged:
                    if not mesh.go_on():
                        mesh.sleeper()()
                for each in link.meshes:
                    each.wake()

            at_once(*(partial(work, mesh) for mesh in link.meshes))
            assert coming.done
            assert coming.message == message
        assert second.payload == (0, 6 * len(message))


def test_what_is_kept_is_bounded_and_freed_by_what_comes_back(tmp_path):
    with cabled(tmp_path) as link:
        first, second = link.meshes
        (end,) = first._ends.values()
        message, into = bytes(KEPT // 4), bytearray(KEPT // 4)
        for number in range(9):

            def receive():
                second.receive(0, memoryview(into)).wait()

            at_once(first.send(1, memoryview(message)).wait, receive)
            assert end._kept_bytes <= KEPT
            assert end._numbered - end._kept_from == (number + 1) % 4  # the fourth has no room
        say(second, b"so far")
        hear(first)
        assert end._kept_bytes == len(end._kept) == 0


def test_a_message_that_had_no_room_is_lost_with_its_connection_and_says_so(tmp_path):
    with cabled(tmp_path) as link:
        first, second = link.meshes
        (end,) = first._ends.values()
        end._kept_bytes = KEPT  # as if so much were on its way
        say(first, b"no room")
        second.close()
        with link.dial(1, PATIENCE) as other:
            other.send(HEADER.pack(0, RECEIVED, 0, 0))
            with pytest.raises(PartyLostError, match="which are gone"):
                hear(first)


def test_a_party_whose_port_refuses_a_connection_is_not_waited_for(tmp_path):
    """While somebody listens there it may come back; once nobody does its process has ended."""
    own = identities(tmp_path, "p0", "p1")
    door, other = listeners(2)
    with door, other:
        place = "{}:{}".format(*door.getsockname())
        federation = federation_of(own, [door, other])
        local, member = Local(own[1], federation), federation.members[0]
        returning = Reconnector({0: again(local, member, "run")}, PATIENCE)
        returning.lose(0, "closed its connection: without a word")
        for _ in range(2):
            door.accept()[0].close()
        assert returning.verdict(0) == ""
    wait_until(lambda: returning.verdict(0), "the verdict")
    said = f"closed its connection: without a word; nobody listens at {place} any more"
    assert returning.verdict(0) == said
    returning.close()
