"""Parties of one process, each a program on a thread, which refuse a run or begin it."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from extensions.data.datasets import Split
from extensions.errors import ArgumentError
from extensions.privacy.randomness import SystemSource
from extensions.protocols.agreement import Words
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions
from extensions.runs.training import run
from tests.helpers.refused import fields_of


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


class SharedError(AssertionError):
    """Parties came to share something."""


class Seated(ClearHost):
    """One party's program, which hears the others, and must not come to share anything."""

    def __init__(self, table: Table, rank: int) -> None:
        super().__init__(20, parties=2, owners=1, source=SystemSource())
        self.exchange = table.seat(rank)

    def share_rows(self, *_: Any) -> Any:
        raise SharedError


def refusals(plans: Sequence[tuple[TrainConfig, RunOptions, Split]]) -> list[str]:
    """Returns what each program refuses the run with; "shared" where it began."""
    table = Table(len(plans))

    def attempt(rank: int) -> str:
        config, options, part = plans[rank]
        try:
            run(Seated(table, rank), config, [part], lambda event: None, options)
        except ArgumentError as error:
            return fields_of(error)
        except SharedError:
            return "shared"
        raise AssertionError("a run with one party ended")

    with ThreadPoolExecutor(len(plans)) as pool:
        return list(pool.map(attempt, range(len(plans))))
