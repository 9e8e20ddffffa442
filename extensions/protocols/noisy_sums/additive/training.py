"""Training of an additive model: counts of cells once, then residuals by bin, with noise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.layers.losses import WEIGHT_BITS, scaled_weights
from extensions.layers.passes import Parameters
from extensions.layers.spec import ADDITIVE
from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.host import Host, share_public
from extensions.protocols.noise import noise_without
from extensions.protocols.noisy_sums.additive.basis import (
    INTERCEPT,
    OPENED_BITS,
    SMOOTH,
    SMOOTHER,
    basis_of,
)
from extensions.protocols.noisy_sums.additive.bins import MOST_BINS, Bins, bins_of, even_bins
from extensions.protocols.noisy_sums.additive.families import Classes, Family, Numbers
from extensions.protocols.noisy_sums.additive.grid import CellGrid
from extensions.protocols.noisy_sums.additive.learner import Learner
from extensions.protocols.noisy_sums.noisy_sum import noisy_sum
from extensions.protocols.noisy_sums.second_moment import check_size, unit_rows
from extensions.protocols.optimizer import State
from extensions.protocols.pea import RunCallbacks
from extensions.protocols.records import Records
from extensions.protocols.settings import TRAINING, Training, account
from extensions.ring.fixed_point import Integers, Reals, encode

COUNTS = "counts"
"""Name of the release, and of its noise in ledgers, to which all parties contribute."""
TITLE = "how many training records each cell of a column's grid holds, with noise"
BINS, DEVIATIONS = "term_bins", "term_deviations"
BIN_COUNTS, COUNT_DEVIATIONS = "term_counts", "term_count_deviations"
"""Arrays that a model has beside its weights: of each cell its column's bin, and of each bin the
deviation of noise in its value, (classes, bins), its noisy count, and the deviation of that."""
TERMS = (BINS, DEVIATIONS, BIN_COUNTS, COUNT_DEVIATIONS)
COUNT_BITS = 16
"""Fractional bits of counts: their noise must be wide on the grid on which it is drawn."""
TARGET_CELLS = 64
"""Of a target that is a number, whose counts tell its middle and its deviation."""
_SHOWN_DEVIATIONS = 3.0
_RESIDUAL_BITS = 30
"""Fractional bits from which residuals are shortened, and rounded toward zero."""


def account_for_counts(ledger: Ledger, config: Training) -> None:
    """Records what the counts cost a record, and that they are opened; nothing without."""
    if config.model == ADDITIVE and config.private and config.cells != "equal":
        noise = config.noise_multiplier_counts or 0.0
        ledger.record(COUNTS, noise_multiplier=noise, sample_rate=1.0, steps=1)
        ledger.disclose(TITLE)


def counts_sensitivity(columns: int, config: Training) -> float:
    """Returns how far all counts move at most with a record, or a person, that is there or not.

    A record adds 1 in one cell of each column. Replaced, it moves two of each, by sqrt(2) times
    that, and ledgers reckon with twice.
    """
    return config.rows_per_unit * math.sqrt(columns + _counts_targets(config))


def most_opened(grid: CellGrid, classes: int) -> int:
    """Returns how many numbers a round opens at most; rare categories make it fewer."""
    outputs = 1 if classes <= 2 else classes
    return outputs * (
        1 + sum(min(each.size, MOST_BINS + each.has_missing) for each in grid.columns)
    )


def fit_additive(
    config: Training,
    grid: CellGrid,
    beside: dict[str, npt.NDArray[Any]],
    host: Host,
    records: Records,
    state: State,
    ledger: Ledger,
    callbacks: RunCallbacks,
) -> Parameters:
    """Returns an additive model as one linear in the grid's cells, (classes, cells); it is public.

    Args:
        config: equal at all parties.
        grid: whose cells are the records' features, (records, columns), counted over all columns.
        beside: takes what is public beside weights, by name (`extensions.runs.model.terms`).
        state: what a run goes on from, of which no use is made: all is computed anew from what was
            opened, which is opened again.

    Guarantees:
        Opened are counts of cells, a Gaussian mechanism of `counts_sensitivity`, and in each round
        sums of residuals, one of `sensitivity` (module `basis` beside this one), in integers:
        however an owner's processor rounds scores, no record moves a sum farther. All else follows
        from what was opened. Against all other parties together an owner has its own summand of the
        noise alone. Shapes are found in floating point: all take those of party 0.

    Cost:
        A round for the counts, unless there are few records, and one a step: an owner sends each
        other party 8 bytes a cell, then 8 a bin and output, about.

    Source:
        Nori et al., ICML 2021 (private additive models of one curator); Ruan et al., S&P 2023,
        Protocol 2 (the noise of several).
    """
    check_size(config.rows_per_unit * sum(records.sizes), len(grid.columns))
    callbacks.begin(records)
    own = dict(zip(host.ranks, records.own, strict=True))
    counts = _open_counts(config, grid, host, own, callbacks)
    bins, learner = begun(config, grid, counts, float(sum(records.sizes)))
    owners = {rank: Owner.of(each, bins, config) for rank, each in own.items()}
    left = callbacks.steps(config)
    for number in range(1, left.stop):
        (opened,) = noisy_sum(
            host,
            callbacks,
            f"step-{number}",
            lambda rank: [owners[rank].sums(learner)],
            [config.noise * config.rows_per_unit * learner.reach],
            frac_bits=OPENED_BITS,
            split=config,
        )
        learner.update(np.ldexp(opened.astype(np.float64), -OPENED_BITS))
        if number in left:
            account(ledger, TRAINING, config, 1)
            callbacks(number, state, ledger)
    beside.update(_beside(config, grid, bins, learner))
    return _model(config, host, bins, learner)


@dataclass
class Owner:
    """One owner's records, and the bin of each column that each is in.

    Attributes:
        bins: counted over all columns, (records, columns).
        targets: (records, targets).
        weights: of each record, `WEIGHT_BITS` fractional bits, 0 where there is none, (records, 1).
    """

    bins: Integers
    targets: Reals
    weights: Integers

    @classmethod
    def of(cls, own: OwnRecords, bins: Sequence[Bins], config: Training) -> "Owner":
        """Returns those of an owner's records."""
        starts = np.cumsum([0, *(each.size for each in bins[:-1])])
        of_cell = np.concatenate(
            [each.of_cell + start for each, start in zip(bins, starts, strict=True)]
        )
        weights = np.full((len(own.features), 1), 1 << WEIGHT_BITS, dtype=np.int64)
        if config.class_weights is not None:
            scaled = np.array(scaled_weights(config.class_weights))
            weights = scaled[own.labels.argmax(axis=1)][:, None]
        if own.empty is not None:
            weights = weights * (1 - own.empty[:, None])
        return cls(
            of_cell[own.features],
            np.ldexp(own.labels.astype(np.float64), -own.frac_bits),
            weights,
        )

    def sums(self, learner: Learner) -> Integers:
        """Returns sums of residuals over C, by row of all bases, (outputs, 1 + rows)."""
        family, values = learner.family, np.concatenate(learner.values, axis=1)
        scores = learner.intercept + sum(values[:, column].T for column in self.bins.T)
        residuals = cut_residuals(
            family.residuals(scores, self.targets), family.bound, self.weights
        )
        *ends, size = np.cumsum([each.shape[1] for each in learner.values])
        found = []
        for own in residuals.T:
            by_bin = np.bincount(
                self.bins.reshape(-1), np.repeat(own, self.bins.shape[1]), size
            ).astype(np.int64)
            parts = [
                basis.matrix @ each
                for basis, each in zip(learner.bases, np.split(by_bin, ends), strict=True)
            ]
            found.append(np.concatenate([[INTERCEPT * own.sum()], *parts]))
        return np.stack(found)


def cut_residuals(residuals: Reals, bound: float, weights: Integers) -> Integers:
    """Returns residuals over their bound, times the records' weights, toward zero.

    Guarantees:
        The squares of each row add up to 4^FRAC_BITS at most, whatever the residuals are.
    """
    rows = unit_rows(
        np.rint(residuals * 2.0**_RESIDUAL_BITS).astype(np.int64), bound * 2.0**_RESIDUAL_BITS
    )
    weighed: Integers = np.sign(rows) * ((np.abs(rows) * weights) >> WEIGHT_BITS)
    return weighed


def _counts_targets(config: Training) -> bool:
    """Whether the target's cells are counted too."""
    return config.classes == 1 and config.cells == "fine"


def cell_counts(own: OwnRecords, grid: CellGrid, config: Training) -> Integers:
    """Returns how many of an owner's records each cell holds, `COUNT_BITS` fractional bits."""
    present = slice(None) if own.empty is None else own.empty == 0
    found = np.bincount(own.features[present].reshape(-1), minlength=grid.size)
    if _counts_targets(config):
        place = (own.labels[present, 0] * TARGET_CELLS) >> own.frac_bits
        cell = np.minimum(place, TARGET_CELLS - 1)
        found = np.append(found, np.bincount(cell, minlength=TARGET_CELLS))
    return found.astype(np.int64) << COUNT_BITS


def _open_counts(
    config: Training,
    grid: CellGrid,
    host: Host,
    own: Mapping[int, OwnRecords],
    callbacks: RunCallbacks,
) -> Reals | None:
    """Returns the noisy counts of all cells; None where records are too few to be counted."""
    if config.cells == "equal":
        return None
    (opened,) = noisy_sum(
        host,
        callbacks,
        COUNTS,
        lambda rank: [cell_counts(own[rank], grid, config)],
        [(config.noise_multiplier_counts or 0.0) * counts_sensitivity(len(grid.columns), config)],
        frac_bits=COUNT_BITS,
        split=config,
    )
    return np.ldexp(opened.astype(np.float64), -COUNT_BITS)


def _count_deviation(config: Training, grid: CellGrid) -> float:
    """Deviation of the noise of a cell's count, of all parties."""
    noise = (config.noise_multiplier_counts or 0.0) * noise_without(config.parties, 0, config)
    return noise * counts_sensitivity(len(grid.columns), config)


def begun(
    config: Training, grid: CellGrid, counts: Reals | None, rows: float
) -> tuple[list[Bins], Learner]:
    """Returns the bins, and what learns; the number of rows, of persons, is about that."""
    deviation = _count_deviation(config, grid)
    if counts is not None and config.rows_per_unit > 1:
        rows = max(1.0, float(counts[: grid.size].sum()) / len(grid.columns))
    if counts is None:
        bins, targets, power = even_bins(grid, rows), np.zeros(0), SMOOTHER
    else:
        bins, targets = bins_of(grid, counts[: grid.size], rows, deviation), counts[grid.size :]
        power = SMOOTH
    wider = config.rows_per_unit * noise_without(config.parties, 0, config)
    learner = Learner(
        bins,
        [basis_of(each, power) for each in bins],
        family_of(config, targets, deviation),
        records=rows,
        steps=config.steps,
        eta=config.lr,
        noise=config.noise * wider,
    )
    return bins, learner


def family_of(config: Training, counts: Reals, deviation: float) -> Family:
    """Returns what scores mean: of a number by noisy counts of the target, if there are any."""
    if config.classes > 1:
        weights = config.class_weights or [1.0] * config.classes
        return Classes(weights, softmax=config.loss == "softmax")
    known = Numbers(0.5, 0.2)
    if not len(counts):
        return known
    seen = np.where(counts < _SHOWN_DEVIATIONS * deviation, 0.0, counts)
    if seen.sum() <= 0:
        return known
    middles = (np.arange(TARGET_CELLS) + 0.5) / TARGET_CELLS
    middle = float(seen @ middles / seen.sum())
    spread = math.sqrt(float(seen @ (middles - middle) ** 2 / seen.sum()))
    return Numbers(middle, max(spread, 1.0 / TARGET_CELLS))


def _model(config: Training, host: Host, bins: Sequence[Bins], learner: Learner) -> Parameters:
    """Returns shares of the model, whose weights are each cell's value."""
    (intercept, values), family = learner.mean(), learner.family
    cells = [own[:, each.of_cell] for own, each in zip(values, bins, strict=True)]
    weight = family.logits(np.concatenate(cells, axis=1))
    bias = family.logits(intercept[:, None])[:, 0] + family.shift()
    most = 2.0 ** (60 - config.frac_bits)
    parts = [encode(np.clip(part, -most, most), config.frac_bits) for part in (weight, bias)]
    return share_public(host, parts)


def are_terms(arrays: Mapping[str, npt.NDArray[Any]], grid: CellGrid, classes: int) -> bool:
    """Returns whether arrays by name have the shapes that `_beside` gives them."""
    if (
        {*arrays} != {*TERMS}
        or arrays[BINS].shape != (grid.size,)
        or arrays[BINS].dtype != np.int64
    ):
        return False
    found = [np.unique(own) for own in grid.by_column(arrays[BINS])]
    whole, bins = all((own == np.arange(len(own))).all() for own in found), sum(map(len, found))
    shapes = [(classes, bins), (bins,), (bins,)]
    return whole and [arrays[name].shape for name in TERMS[1:]] == shapes


def _beside(
    config: Training,
    grid: CellGrid,
    bins: Sequence[Bins],
    learner: Learner,
) -> dict[str, npt.NDArray[Any]]:
    """Returns what is public of the terms beside weights, of all columns' cells or bins in turn."""
    noise = np.abs(learner.family.logits(np.concatenate(learner.deviations(), axis=1)))
    cells = [np.bincount(each.of_cell, minlength=each.size) for each in bins]
    deviation = _count_deviation(config, grid)
    return {
        BINS: np.concatenate([each.of_cell for each in bins]),
        DEVIATIONS: noise,
        BIN_COUNTS: np.concatenate([each.counts for each in bins]),
        COUNT_DEVIATIONS: deviation * np.sqrt(np.concatenate(cells)),
    }
