"""Parties hear alike who refuses and which setting differs, before anything is shared."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from extensions.errors import ArgumentError, MaterialError
from extensions.protocols.agreement import (
    Statement,
    Subject,
    agree,
    canonical,
    check_equal,
    common_name,
    comparable,
    exchange_bytes,
)
from tests.helpers.refused import refused
from tests.helpers.seated import Table

PARTIES = 3
SETTINGS = {"steps": 5, "lr": 0.5, "init": None}
STATED = Statement(run=SETTINGS)


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
    heard, rounds = together(lambda rank, seat: agree(seat, [[rank, -rank]], STATED))
    assert heard == [[[0, 0], [1, -1], [2, -2]]] * PARTIES
    assert rounds == [1] * PARTIES


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 6}, "steps = 5 at parties 0 and 2, 6 at party 1"),
        ({"lr": 0.25, "steps": 6}, "lr = 0.5 at parties 0 and 2, 0.25 at party 1"),
        ({"init": "local"}, "init = None at parties 0 and 2, 'local' at party 1"),
        ({"more": 1}, "more = nothing at parties 0 and 2, 1 at party 1"),
        ({"steps": True}, "steps = 5 at parties 0 and 2, True at party 1"),
    ],
)
def test_all_settings_that_differ_are_named_at_every_party(changes, message):
    odd = Statement(run=SETTINGS | changes)
    found, rounds = together(lambda rank, seat: agree(seat, [[]], odd if rank == 1 else STATED))
    assert [f"{error.argument} = {error.value}" for error in found] == [message] * PARTIES
    if len(changes) == 2:
        assert "steps = 5 at parties 0 and 2, 6 at party 1" in found[0].hint
    assert rounds == [3] * PARTIES


def test_a_number_is_one_statement_whatever_its_type():
    assert canonical({"b": 2.0, "a": [1, 0.5]}) == b'{"a":[1,0.5],"b":2}'
    assert canonical(True) != canonical(1)
    check_equal({0: Statement(run={"lr": 10}), 1: Statement(run={"lr": 10.0})})


def test_settings_out_of_range_can_be_told_to_others():
    settings = {"a": math.nan, "b": math.inf, "c": "x", "d": np.float32(0.5), "e": 3, "f": None}
    told = {"a": "nan", "b": "inf", "c": "x", "d": 0.5, "e": 3, "f": None}
    assert comparable(settings) == Statement(run=told)


def test_of_many_settings_that_differ_the_first_are_named():
    columns = [f"column {i:02}" for i in range(99)]
    everybody = {rank: Statement(run=dict.fromkeys(columns, rank)) for rank in (0, 1)}
    with refused("column 00", "value", "0 at party 0, 1 at party 1") as found:
        check_equal(everybody)
    assert str(found.value).endswith("column 12 = 0 at party 0, 1 at party 1; and 86 others.")


def test_a_long_value_is_cut_and_still_told_from_others():
    values = ["x" * 500, "x" * 499 + "y"]
    with pytest.raises(ArgumentError) as found:
        check_equal({rank: Statement(run={"note": said}) for rank, said in enumerate(values)})
    assert str(found.value).count("x" * 100) == 2
    assert len(str(found.value)) < 400


def test_a_party_that_refuses_keeps_its_reason_and_the_others_learn_its_rank():
    reason = MaterialError("this file was used before")
    subject = Subject("material", "valid at every party", "No file was used.")
    found, rounds = together(
        lambda rank, seat: agree(seat, [[]], STATED, reason if rank == 2 else None, subject)
    )
    assert found[2] is reason
    for error in found[:2]:
        assert (error.argument, error.value) == ("material", "refused by party 2")
        assert error.hint == "No file was used. The reason is in the output of party 2."
    assert rounds == [1] * PARTIES


@pytest.mark.parametrize("other", [STATED, Statement(run={"steps": 6})])
def test_a_party_that_can_state_nothing_has_its_reason_heard_unless_others_differ(other):
    reason = MaterialError("this file was used before")
    subject = Subject("material", "valid at every party", "No file was used.", "file")
    own = [(STATED, None), (None, reason), (other, None)]
    found, _ = together(lambda rank, seat: agree(seat, [[]], *own[rank], subject))
    if other is STATED:
        assert found[1] is reason
        assert found[0].value == found[2].value == "refused by party 1"
        return
    assert {(error.argument, error.code) for error in found} == {("steps", "file")}


def test_messages_of_any_length_arrive_whole():
    messages = [b"", b"eight by", b"\x00 and more\x00"]
    found, rounds = together(lambda rank, seat: exchange_bytes(seat, [messages[rank]]))
    assert found == [messages] * PARTIES
    assert rounds == [2] * PARTIES


def test_a_common_name_is_one_that_nothing_else_has():
    """Two of 64 names of three words would be alike with probability below 2^-51."""
    found, rounds = together(lambda rank, seat: common_name(seat, 1))
    assert rounds == [1] * PARTIES
    assert found == [found[0]] * PARTIES
    words = [word for _ in range(64) for word in common_name(lambda own: own, PARTIES)]
    assert len({*words, *found[0]}) == 64 * PARTIES + PARTIES
    assert all(0 <= word < 1 << 63 for word in words)


def test_the_parties_of_one_program_need_no_exchange():
    assert agree(lambda own: own, [[1], [2]], STATED) == [[1], [2]]
    assert exchange_bytes(lambda own: own, [b"a", b"bc"]) == [b"a", b"bc"]
