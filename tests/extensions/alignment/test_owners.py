"""What owners tell each other, and who is named when one is lost."""

import threading

import pytest

from extensions.alignment import AlignmentRing, ListStore, Owners, Workers
from extensions.alignment.owners import _BEAT
from extensions.errors import PartyLostError
from extensions.transport.reliable_channel import ReliableChannel
from tests.helpers.aligning import ANY_NUMBER, connected, lists_of, nothing
from tests.helpers.cable import cuts_of
from tests.helpers.federations import at_once, cabled
from tests.helpers.patience import PATIENCE, wait_until

NAMES = ("bank", "telco", "insurer")


def together(folder, *tasks, silence=PATIENCE):
    """What each task returns or raises, called with its owner's `Owners`, over TLS."""
    names, over = NAMES[: len(tasks)], threading.Event()

    def owner(rank, mesh, stack):
        if tasks[rank] is None:  # one that says nothing
            stack.callback(ReliableChannel(mesh, 1 << 20, nothing, nothing).close)
            return over.wait(PATIENCE)
        stack.callback(over.set)
        return tasks[rank](stack.enter_context(Owners(mesh, names, nothing, silence)))

    return connected(folder, names, owner)


def test_all_hear_all_in_turn(tmp_path):
    def say(owners):
        return [owners.exchange(f"{n} of {owners.rank}".encode()) for n in range(3)]

    expected = [[f"{n} of {rank}".encode() for rank in range(3)] for n in range(3)]
    assert together(tmp_path, say, say, say) == [expected] * 3


def test_who_waits_is_told_what_the_other_does(tmp_path):
    shown = []

    def busy(owners):
        owners.doing("multiplies bank's list", 10_000, 198_004)
        wait_until(lambda: any("198,004" in each for each in shown))
        owners.send(0, b"done")

    def waits(owners):
        owners._show = lambda what, *_: shown.append(what)
        return owners.receive(1)

    assert together(tmp_path, waits, busy)[0] == b"done"
    assert shown[-1] == "waiting for telco, which multiplies bank's list, 10,000 of 198,004"


def test_all_name_the_one_that_failed(tmp_path):
    def fails(_):
        raise KeyError("a secret")

    def waits(owners):
        return owners.receive((owners.rank + 2) % 3)  # each for another one

    first, second, third = together(tmp_path, waits, fails, waits)
    assert isinstance(second, KeyError)
    for lost in (first, third):
        assert isinstance(lost, PartyLostError)
        assert str(lost) == "party 1 ended by KeyError"


def test_what_an_owner_says_of_the_lost_cannot_control_a_terminal(tmp_path):
    def fails(_):
        raise PartyLostError(2, "\x1b[2J said\n" + 1000 * "x")

    lost = together(tmp_path, lambda owners: owners.receive(1), fails, lambda _: None)[0]
    assert lost.rank == 2
    assert str(lost).isprintable()
    assert len(str(lost)) < 300


def test_one_that_says_nothing_is_lost_in_time(tmp_path):
    """Though its host answers, as that of a process that is stopped."""
    lost, _ = together(tmp_path, lambda owners: owners.receive(1), None, silence=2.5 * _BEAT)
    assert isinstance(lost, PartyLostError)
    assert lost.rank == 1
    assert "(telco)" in str(lost)


def test_one_that_has_left_is_missed_at_once(tmp_path):
    def leaves(owners):
        owners.send(0, b"last")

    def waits(owners):
        return owners.receive(1), owners.receive(1)

    lost, _ = together(tmp_path, waits, leaves)
    assert isinstance(lost, PartyLostError)
    assert "has left" in str(lost)


def test_what_was_sent_before_an_owner_left_is_received(tmp_path):
    def leaves(owners):
        for n in range(50):
            owners.send(0, bytes([n]) * 100_000)

    def waits(owners):
        wait_until(lambda: owners._left)
        return [owners.receive(1)[:1] for _ in range(50)]

    assert together(tmp_path, waits, leaves)[0] == [bytes([n]) for n in range(50)]


def test_who_is_lost_while_others_compute_is_told_by_their_next_word(tmp_path):
    def fails(_):
        raise OSError("disk")

    def computes(owners):
        wait_until(lambda: owners._lost)
        with pytest.raises(PartyLostError) as lost:
            owners.doing("multiplies", 1, 2)
        return lost.value.rank

    assert together(tmp_path, computes, fails)[0] == 1


def test_connections_that_break_are_replaced_and_nothing_is_lost(tmp_path, monkeypatch):
    for module in ("ring", "store"):
        monkeypatch.setattr(f"extensions.alignment.{module}.BLOCK", 20)
    lists = [[f"person {n}" for n in range(first, first + 300)] for first in (0, 100)]
    with cabled(tmp_path) as link:

        def owner(rank):
            try:
                with Owners(link.meshes[rank], NAMES[:2], nothing) as owners:
                    (ids,) = lists_of(lists[rank])
                    store = ListStore(tmp_path / f"kept-{rank}", "subject")
                    ring = AlignmentRing(ids, ANY_NUMBER, owners, store, Workers(1))
                    return ring.run(nothing, nothing)
            except BaseException:
                link.give_up()  # the other one waits for nothing
                raise

        link.cable.limit = cuts_of(0, 8, 2500, 20_000)
        link.cable.reset()
        found = at_once(lambda: owner(0), lambda: owner(1))
        assert len(link.cable.carried) >= 5
    named = [[own[row] for row in one.rows] for own, one in zip(lists, found, strict=True)]
    assert named[0] == named[1]
    assert {*named[0]} == {*lists[0]} & {*lists[1]}
