"""Where recipes run: one adapter a host. A further host needs one more `Arena`, and no new test."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from extensions.clear import ClearRing, Rounding
from extensions.fixed_point import Integers
from tests.conformance.recipes import RECIPES
from tests.conftest import Pools

TASKS = "tests.conformance.parties"


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
        """Returns what a function of `tests.conformance.parties` returned in each party."""
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


ARENAS: dict[str, Callable[[Pools], Arena]] = {
    "clear-probabilistic": lambda _: ClearArena("probabilistic"),
    "clear-floor": lambda _: ClearArena("floor"),
    "clear-ceiling": lambda _: ClearArena("ceiling"),
    "clear-extreme": lambda _: ClearArena("extreme"),
    "crypten-2": lambda pools: CrypTenArena(2, pools),
    "crypten-3": lambda pools: CrypTenArena(3, pools),
}

UNBIASED = ["clear-probabilistic", "crypten-2", "crypten-3"]
"""Hosts whose truncation has the expected value z / 2^m."""
