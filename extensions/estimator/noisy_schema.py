"""Ranges and categories of columns by noisy counts, which a part of epsilon covers."""

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from extensions.data.schema import Table, label_of
from extensions.data.schema.cells import Cells, is_missing, is_spelled_missing, numbers_of
from extensions.data.schema.draft import MOST, MOST_CATEGORIES, rounded_outward
from extensions.errors import ArgumentError
from extensions.privacy.accounting import NEIGHBOURS, Ledger, calibrate_noise
from extensions.privacy.discrete import discrete_gaussian
from extensions.protocols.noisy_sums.additive.training import COUNT_BITS
from extensions.ring.fixed_point import Integers, Reals
from extensions.runs.budget import Entry, Reservations

SCHEMA = "schema"
"""Name of the counts in ledgers."""
TITLE = "ranges and categories of the columns, by noisy counts"
DELTA_SHARE = 0.1
"""The part of delta that goes with them."""
_RARE_SHARE = 0.01
"""The part of that which goes with categories of a single record that show."""
_FALSE = 1e-3
"""How probable it is that anything shows that no record has, of numbers."""
_POWERS = 2.0 ** np.arange(-20, 41)
_COARSE = np.concatenate([-_POWERS[::-1], _POWERS])
"""Edges of cells of numbers, whatever their unit."""
_FINE = 64
"""Cells of the second count, within what the first shows."""


@dataclass(frozen=True, kw_only=True)
class SchemaBudget:
    """What counting may cost: `epsilon` and `delta`, which the `ledger` is charged with before.

    Guarantees:
        What `entries` returns is (epsilon, delta)-differentially private for each record. A record
        moves one count of each column by 1: all counts together are one Gaussian mechanism. A
        category of one record alone shows with a probability that delta has room for. That a
        column holds texts or numbers is taken to be public.
    """

    epsilon: float
    delta: float
    ledger: Path | None = None

    @cached_property
    def account(self) -> Ledger:
        """What it costs, before any record is looked at."""
        rare = self._rare
        noise = calibrate_noise(
            epsilon=self.epsilon,
            delta=self.delta,
            sample_rate=1.0,
            steps=1,
            overflow_probability=rare,
        )
        found = Ledger()
        found.record(
            SCHEMA, noise_multiplier=noise, sample_rate=1.0, steps=1, overflow_probability=rare
        )
        found.disclose(TITLE)
        return found

    @property
    def _rare(self) -> float:
        """How probable it may be that a category of one record shows: exp(epsilon) times as bad."""
        return _RARE_SHARE * self.delta * math.exp(-3.0 * self.epsilon)

    def costs(self) -> dict[str, float]:
        """Returns what it costs at its delta, by neighbours."""
        return {each: self.account.get_epsilon(self.delta, neighbours=each) for each in NEIGHBOURS}

    def entries(self, table: Table) -> dict[str, dict[str, Any]]:
        """Returns a schema's entries by column; columns of which too little shows have none.

        Ranges are linear and hold all but 2 % at either end; categories are those that show.
        """
        account = self.account
        self._charge(account)
        texts = {name: cells for name, cells in table.items() if _is_text(cells)}
        numbers = {name: _numbers(cells) for name, cells in table.items() if name not in texts}
        moved = len(texts) + 2 * len(numbers)
        (phase,) = account.phases
        deviation = phase.noise_multiplier * moved**0.5  # type: ignore[union-attr]
        rare = 1.0 + deviation * norm.isf(self._rare / max(len(texts), 1))
        cells = len(numbers) * (len(_COARSE) + _FINE)
        least = deviation * norm.isf(_FALSE / max(cells, 1))
        found = {}
        for name in table:
            if name in texts:
                shown: list[Any] = [*_categories(texts[name], deviation, rare)]
                entry: dict[str, Any] = {"categories": shown, "outside": "other"}
            else:
                shown = [*_range(numbers[name], deviation, least)]
                entry = {"range": shown, "outside": "clip"}
            if len(shown) > 1:
                found[name] = {**entry, "missing": "indicator"}
        if not found:
            hint = "Give a schema with publicly known ranges and categories, or a larger epsilon."
            rule = f"larger, because each record changes {moved} noisy counts"
            raise ArgumentError("epsilon_schema", self.epsilon, rule, hint, code="range")
        return found

    def _charge(self, account: Ledger) -> None:
        if self.ledger is not None:
            entry = Entry(
                name=secrets.token_hex(5),
                title="schema by noisy counts",
                ledger=account,
                exact=False,
                opens=(TITLE,),
                delta=self.delta,
            )
            charge = Reservations([(self.ledger, entry)])
            charge.reserve()
            charge.spend()


def with_schema(report: Mapping[str, Any], budget: SchemaBudget) -> dict[str, Any]:
    """Returns what a report has otherwise, if the schema's cost is added to training's.

    Epsilons and deltas of both add up, whatever the one told the other.
    """
    costs = budget.costs()
    own = costs[report["neighbours"]]
    missing = report.get("epsilon_without_noise_of")
    return {
        "epsilon": report["epsilon"] + own,
        "delta": report["delta"] + budget.delta,
        "epsilon_by_neighbours": {
            each: spent + costs[each] for each, spent in report["epsilon_by_neighbours"].items()
        },
        **(
            {"epsilon_without_noise_of": {k: v + own for k, v in missing.items()}}
            if missing
            else {}
        ),
    }


def _noised(counts: Integers, deviation: float) -> Reals:
    scale = deviation * 2.0**COUNT_BITS
    noise = discrete_gaussian(scale, counts.shape)
    noisy: Integers = (counts.astype(np.int64) << COUNT_BITS) + noise
    return noisy.astype(np.float64) / 2.0**COUNT_BITS


def _is_text(cells: Cells) -> bool:
    return any(isinstance(each, str) and not is_spelled_missing(each) for each in cells)


def _numbers(cells: Cells) -> Reals:
    numbers = numbers_of(cells)
    return numbers[~np.isnan(numbers)]


def _categories(cells: Cells, deviation: float, least: float) -> list[str]:
    present = [label_of(each) for each in cells if not is_missing(each)]
    names, counts = np.unique(np.array(present, dtype=str), return_counts=True)
    noisy = _noised(counts, deviation)
    shown = sorted(np.flatnonzero(noisy >= least), key=lambda place: -noisy[place])
    return sorted(str(names[place]) for place in shown[:MOST_CATEGORIES])


def _range(numbers: Reals, deviation: float, least: float) -> tuple[float, ...]:
    """Returns the ends of a column's range: of powers of two, then of cells between these.

    Nothing if too little shows.
    """
    around = np.concatenate([_COARSE[:1], _COARSE, _COARSE[-1:]])
    if (ends := _held(numbers, around, deviation, least)) is None:
        return ()
    # The cell around 0 counts as a point, unless nothing else shows.
    low = 0.0 if ends[0] == -_POWERS[0] < _POWERS[0] < ends[1] else ends[0]
    high = 0.0 if ends[1] == _POWERS[0] > -_POWERS[0] > ends[0] else ends[1]
    found = _held(numbers, np.linspace(low, high, _FINE + 1), deviation, least)
    return () if found is None else rounded_outward(*found)


def _held(
    numbers: Reals, edges: Reals, deviation: float, least: float
) -> tuple[float, float] | None:
    """Returns the ends of the cells that hold all but few of what shows; None if nothing does."""
    places = np.searchsorted(edges[1:-1], numbers, side="right")
    counts = _noised(np.bincount(places, minlength=len(edges) - 1), deviation)
    shown = np.where(counts >= least, counts, 0.0)
    if not shown.any():
        return None
    shares = shown / shown.sum()
    upto = np.cumsum(shares)
    held = np.flatnonzero((upto > MOST) & (upto - shares < 1.0 - MOST))
    return float(edges[held[0]]), float(edges[held[-1] + 1])
