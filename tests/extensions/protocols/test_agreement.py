"""Parties hear alike who refuses and which setting differs, before anything is shared."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from extensions.errors import ArgumentError, MaterialError
from extensions.protocols.agreement import Subject, Words, agree, exchange_bytes

PARTIES = 3
SETTINGS = {"steps": 5, "lr": 0.5, "init": None}


class Table:
    """Where the parties of one process, each on a thread, hear each other's words."""

    def __init__(self, parties: int) -> None:
        self._barrier = threading.Barrier(parties, timeout=30.0)
        self._words: list[Words] = [()] * parties
        self.rounds = [0] * parties

    def seat(self, rank: int) -> Callable[[Sequence[Words]], list[Words]]:
        def exchange(own: Sequence[Words]) -> list[Words]:
            (self._words[rank],) = own
            self._barrier.wait()
            heard = list(self._words)
            self._barrier.wait()
            self.rounds[rank] += 1
            return heard

        return exchange


def together(act: Callable[[int, Any], Any]) -> tuple[list[Any], list[int]]:
    """Returns what each party returned or raised, and the rounds that each took."""
    table = Table(PARTIES)

    def attempt(rank: int) -> Any:
        try:
            return act(rank, table.seat(rank))
        except (ArgumentError, MaterialError) as error:
            return error

    with ThreadPoolExecutor(PARTIES) as pool:
        return list(pool.map(attempt, range(PARTIES))), table.rounds


def test_all_hear_the_facts_of_all_in_one_round():
    heard, rounds = together(lambda rank, seat: agree(seat, [[rank, -rank]], SETTINGS))
    assert heard == [[[0, 0], [1, -1], [2, -2]]] * PARTIES
    assert rounds == [1] * PARTIES


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 6}, "steps = '5 at party 0, 6 at party 1': must be equal at every party"),
        ({"lr": 0.25, "steps": 6}, "lr = '0.5 at party 0, 0.25 at party 1'"),
        ({"init": "local"}, "init = \"None at party 0, 'local' at party 1\""),
        ({"more": 1}, "more = 'None at party 0, 1 at party 1'"),
    ],
)
def test_the_first_setting_that_differs_is_named_at_every_party(changes, message):
    found, rounds = together(
        lambda rank, seat: agree(seat, [[]], SETTINGS | (changes if rank == 1 else {}))
    )
    assert [str(error).startswith(message) for error in found] == [True] * PARTIES
    assert rounds == [3] * PARTIES


def test_a_party_that_refuses_keeps_its_reason_and_the_others_learn_its_rank():
    reason = MaterialError("this file was used before")
    subject = Subject("material", "valid at every party", "No file was used.")
    found, rounds = together(
        lambda rank, seat: agree(seat, [[]], SETTINGS, reason if rank == 2 else None, subject)
    )
    assert found[2] is reason
    for error in found[:2]:
        assert str(error) == (
            "material = 'refused by party 2': must be valid at every party. No file was used. "
            "The reason is in the output of party 2."
        )
    assert rounds == [1] * PARTIES


def test_messages_of_any_length_arrive_whole():
    messages = [b"", b"eight by", b"\x00 and more\x00"]
    found, rounds = together(lambda rank, seat: exchange_bytes(seat, [messages[rank]]))
    assert found == [messages] * PARTIES
    assert rounds == [2] * PARTIES


def test_the_parties_of_one_program_need_no_exchange():
    assert agree(lambda own: own, [[1], [2]], SETTINGS) == [[1], [2]]
    assert exchange_bytes(lambda own: own, [b"a", b"bc"]) == [b"a", b"bc"]
