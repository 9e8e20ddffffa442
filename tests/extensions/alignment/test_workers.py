"""Blocks in processes: in order, as they come, and never without a word of what went wrong."""

import os
from functools import partial

import pytest

from extensions.alignment import Workers
from extensions.errors import MessageError, WorkerLostError


def upper(block: bytes, mark: bytes = b"") -> bytes:
    return block.upper() + mark


def process_of(_: bytes) -> bytes:
    return str(os.getpid()).encode()


def die(_: bytes) -> bytes:
    os._exit(3)


def refuse(block: bytes) -> bytes:
    raise MessageError(f"{block!r} is none")


BLOCKS = [bytes([97 + n]) * 3 for n in range(12)]


def test_blocks_come_back_in_turn_whoever_does_them():
    with Workers(2) as workers:
        for _ in range(2):
            found = [*workers.each(partial(upper, mark=b"!"), BLOCKS)]
            assert found == [block.upper() + b"!" for block in BLOCKS]
        assert [*workers.each(upper, [])] == []
        assert str(os.getpid()).encode() not in {*workers.each(process_of, BLOCKS)}
        assert [*workers.each(process_of, BLOCKS[:1])] == [str(os.getpid()).encode()]


def test_no_more_blocks_are_taken_than_are_worked_on():
    taken = []
    with Workers(2) as workers:
        results = workers.each(upper, (taken.append(block) or block for block in BLOCKS))
        assert next(results) == b"AAA"
        assert len(taken) <= 6


@pytest.mark.parametrize(("task", "kind"), [(refuse, MessageError), (die, WorkerLostError)])
def test_what_goes_wrong_there_is_raised_here(task, kind):
    with pytest.raises(kind), Workers(2) as workers:
        assert [*workers.each(task, BLOCKS)] == []
