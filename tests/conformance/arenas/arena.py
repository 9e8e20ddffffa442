"""Where recipes run: one adapter a host. A further host needs one more `Arena`, and no new test."""

import base64
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pytest

from extensions.ring.clear import ClearRing, Rounding
from extensions.ring.fixed_point import Integers
from tests.conformance.arenas.recipes import RECIPES
from tests.conftest import SHARED, Pools
from tests.helpers.tfe_process import TFEProcess
from tests.helpers.toy_ext.ring import ToyRing

TASKS = "tests.conformance.arenas.parties"
SERVERS = "tests.conformance.arenas.servers"


class Arena(Protocol):
    """A host that shares inputs, runs a recipe over its ring and opens the results.

    Attributes:
        parties: how many parties its ring has.
    """

    parties: int

    def evaluate(
        self, recipe: str, inputs: Sequence[Integers], *, frac_bits: int = 16, **options: Any
    ) -> list[Integers]:
        """Returns the opened results of a recipe of `RECIPES` on ring integers."""


class ClearArena:
    """The plaintext ring, with one of its rounding modes."""

    parties = 3

    def __init__(self, rounding: Rounding) -> None:
        self._rounding = rounding

    def evaluate(
        self, recipe: str, inputs: Sequence[Integers], *, frac_bits: int = 16, **options: Any
    ) -> list[Integers]:
        ring = ClearRing(frac_bits, parties=self.parties, rounding=self._rounding, seed=6)
        return [np.asarray(r) for r in RECIPES[recipe](ring, *inputs, **options)]


class ToyArena:
    """Additive shares of three parties in this process."""

    parties = 3

    def evaluate(
        self, recipe: str, inputs: Sequence[Integers], *, frac_bits: int = 16, **options: Any
    ) -> list[Integers]:
        ring = ToyRing(frac_bits, self.parties)
        shares = [ring.share(value) for value in inputs]
        return ring.open_sum(RECIPES[recipe](ring, *shares, **options))


@dataclass(frozen=True)
class Cost:
    """What one party spent: rounds, and 64-bit words that it contributed to openings."""

    rounds: int
    words: float


class CrypTenArena:
    """Real CrypTen processes of this machine."""

    def __init__(self, parties: int, pools: Pools) -> None:
        self.parties = parties
        self._pools = pools

    def evaluate(
        self, recipe: str, inputs: Sequence[Integers], *, frac_bits: int = 16, **options: Any
    ) -> list[Integers]:
        """All parties must have opened the same."""
        return self._run(recipe, inputs, frac_bits, options)[0]

    def cost(
        self, recipe: str, inputs: Sequence[Integers], *, frac_bits: int = 16, **options: Any
    ) -> Cost:
        """Returns the cost of a recipe, without sharing its inputs and opening its results."""
        return self._run(recipe, inputs, frac_bits, options)[1]

    def run(self, task: str, **arguments: Any) -> list[Any]:
        """Returns what a function of `tests.conformance.arenas.parties` returned in each party."""
        return self._pools.run(self.parties, f"{TASKS}:{task}", **arguments)

    def _run(
        self, recipe: str, inputs: Sequence[Integers], frac_bits: int, options: dict[str, Any]
    ) -> tuple[list[Integers], Cost]:
        arrays = [np.asarray(x, dtype=np.int64) for x in inputs]
        answers = self.run(
            "evaluate",
            per_party=[
                {"inputs": [a if rank == 0 else a.shape for a in arrays]}
                for rank in range(self.parties)
            ],
            recipe=recipe,
            frac_bits=frac_bits,
            options=options,
        )
        (opened, cost), *others = answers
        for other, other_cost in others:
            assert other_cost == cost
            for own, theirs in zip(opened, other, strict=True):
                np.testing.assert_array_equal(own, theirs)
        return opened, Cost(*cost)


class ABY3Arena:
    """Three servers of ABY3, on devices of one process or each in a process, beside this one."""

    parties = 3

    def __init__(self, process: TFEProcess) -> None:
        self._process = process

    def evaluate(
        self, recipe: str, inputs: Sequence[Integers], *, frac_bits: int = 16, **options: Any
    ) -> list[Integers]:
        """Computes without a graph; every share must lie on its server, and agree with its copy."""
        return self.run(
            "evaluate", recipe=recipe, inputs=inputs, frac_bits=frac_bits, options=options
        )

    def cost(
        self, recipe: str, shapes: Sequence[tuple[int, ...]], *, frac_bits: int = 16, **options: Any
    ) -> tuple[int, int]:
        """Returns the rounds and the bytes of a recipe, without what makes results replicated."""
        rounds, size, _ = self.counts(recipe, shapes, frac_bits=frac_bits, **options)
        return rounds, size

    def counts(
        self, recipe: str, shapes: Sequence[tuple[int, ...]], *, frac_bits: int = 16, **options: Any
    ) -> tuple[int, int, int]:
        """Returns what `cost` does, and the number of messages."""
        counts: tuple[int, int, int] = self.run(
            "count", recipe=recipe, shapes=shapes, frac_bits=frac_bits, options=options
        )
        return counts

    def run(self, task: str, **arguments: Any) -> Any:
        """Returns what a function of `tests.conformance.arenas.servers` returned."""
        packed = base64.b64encode(pickle.dumps(arguments)).decode()
        answer = self._process.run(f"{SERVERS}:run", name=task, packed=packed)
        return pickle.loads(base64.b64decode(answer))


def _crypten(parties: int) -> Callable[[pytest.FixtureRequest], Arena]:
    return lambda request: CrypTenArena(parties, request.getfixturevalue("pools"))


ARENAS: dict[str, Callable[[pytest.FixtureRequest], Arena]] = {
    "clear-probabilistic": lambda _: ClearArena("probabilistic"),
    "clear-floor": lambda _: ClearArena("floor"),
    "clear-ceiling": lambda _: ClearArena("ceiling"),
    "clear-extreme": lambda _: ClearArena("extreme"),
    "toy": lambda _: ToyArena(),
    "crypten-2": _crypten(2),
    "crypten-3": _crypten(3),
    "aby3": lambda request: ABY3Arena(request.getfixturevalue("tfe_process")),
    "aby3-players": lambda request: ABY3Arena(request.getfixturevalue("tfe_players")),
}

GROUPS = {"crypten": SHARED["pools"], "aby3": SHARED["tfe_process"]}

LONG = {"aby3-players"}
"""Hosts that only the long tests run on: each operation travels to a process of its own."""


def parameters(names: Iterable[str]) -> list[Any]:
    """Returns the names as parameters of the fixture `arena`: the long ones marked, and grouped.

    All tests on a host run where its processes are (`tests.conftest.SHARED`).
    """
    return [pytest.param(name, marks=_marks(name)) for name in names]


def _marks(name: str) -> list[pytest.MarkDecorator]:
    groups = [group for host, group in GROUPS.items() if name.startswith(host)]
    marks = [pytest.mark.xdist_group(group) for group in groups]
    return [*marks, pytest.mark.long] if name in LONG else marks


UNBIASED = parameters(
    ["clear-probabilistic", "toy", "crypten-2", "crypten-3", "aby3", "aby3-players"]
)
"""Hosts whose truncation has the expected value z / 2^m."""
