"""How far one record moves what an additive model opens: never farther than is accounted."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from extensions.privacy.sampling import OwnRecords
from extensions.protocols.noisy_sums.additive.basis import MATRIX_BITS, basis_of, sensitivity
from extensions.protocols.noisy_sums.additive.bins import bins_of
from extensions.protocols.noisy_sums.additive.grid import CellGrid
from extensions.protocols.noisy_sums.additive.training import (
    COUNT_BITS,
    Owner,
    cell_counts,
    counts_sensitivity,
    cut_residuals,
    family_of,
)
from extensions.protocols.noisy_sums.second_moment import FRAC_BITS
from extensions.runs.config import TrainConfig
from tests.helpers.claims import claim
from tests.helpers.tables import schema_of

DRAWS = 1200
"""Of each of 9 settings: 10,800 cases, each of which adds, nulls and replaces a record."""
KINDS: dict[str, tuple[int, dict[str, Any]]] = {
    "two": (2, {}),
    "three": (3, {"loss": "softmax"}),
    "five": (5, {"loss": "softmax"}),
    "number": (1, {"loss": "squared"}),
    "weights": (2, {"class_weights": (0.3, 1.0)}),
    "weights of three": (3, {"loss": "softmax", "class_weights": (0.3, 1.0, 0.1)}),
    "coarse": (2, {"cells": "coarse"}),
    "even": (2, {"cells": "equal"}),
    "persons": (2, {"rows_per_unit": 3}),
}


class Scores:
    """Stands for a learner, with scores that no training would reach."""

    def __init__(self, draw: Any, bins: Any, bases: Any, family: Any) -> None:
        size = 10.0 ** draw.uniform(-2, 3)
        outputs = family.outputs
        self.intercept = draw.normal(size=outputs) * size
        self.values = [draw.normal(size=(outputs, each.size)) * size for each in bins]
        self.bases, self.family = bases, family


def rows_of(draw: Any, grid: CellGrid, classes: int, rows: int, k: int = 1) -> OwnRecords:
    """Random records in any cells; with k > 1 of one person, whose rows may be empty."""
    cells = [
        draw.integers(a, b, rows) for a, b in zip(grid.offsets, grid.offsets[1:], strict=False)
    ]
    labels = draw.integers(0, (1 << 20) + 1, (rows, 1))
    if classes > 1:
        labels = np.eye(classes, dtype=np.int64)[draw.integers(0, classes, rows)] << 20
    empty = (draw.random(rows) < 0.3).astype(np.int64) if k > 1 else None
    x = np.stack(cells, axis=1)
    return OwnRecords(features=x, labels=labels, frac_bits=20, rows_per_unit=k, empty=empty)


def norm(vector: Any) -> float:
    return math.sqrt(sum(int(each) ** 2 for each in vector.ravel()))


@claim("No record moves the opened sums further than accounted.")
@pytest.mark.parametrize("kind", KINDS)
def test_no_record_moves_what_is_opened_farther_than_accounted(kind: str):
    classes, given = KINDS[kind]
    facts = schema_of(classes).facts()
    config = TrainConfig(
        backend="clear", model="additive", open="each-step", classes=classes, facts=facts,
        noise_multiplier=1.0, delta=1e-5, lr=0.4, **given,
    )  # fmt: skip
    k, grid = config.rows_per_unit, config.grid
    assert grid is not None
    draw = np.random.default_rng(len(kind))
    longest = 0.0
    for number in range(DRAWS):
        if number % 40 == 0:
            counts = draw.gamma(0.3, 400.0, grid.size)
            bins = bins_of(grid, counts, counts.sum() / len(grid.columns), draw.uniform(0, 30))
            bases = [basis_of(each, int(draw.integers(1, 3))) for each in bins]
            family = family_of(config, draw.random(64), 0.0)
        model: Any = Scores(draw, bins, bases, family)

        def sums(own: OwnRecords, known: Any = (bins, model)) -> Any:
            return Owner.of(own, known[0], config).sums(known[1])

        one, other = (rows_of(draw, grid, classes, k, k) for _ in range(2))
        rest = rows_of(draw, grid, classes, 2 * k, k)

        def with_rest(own: OwnRecords, rest: OwnRecords = rest) -> OwnRecords:
            return replace(
                rest,
                features=np.concatenate([rest.features, own.features]),
                labels=np.concatenate([rest.labels, own.labels]),
                empty=None if own.empty is None else np.concatenate([rest.empty, own.empty]),
            )

        most = k * sensitivity(bases) * 2.0 ** (MATRIX_BITS + FRAC_BITS)
        null = replace(one, empty=np.ones(k, dtype=np.int64))
        added = sums(with_rest(one)) - sums(rest)
        nulled = sums(one) - sums(null)
        replaced = sums(with_rest(one)) - sums(with_rest(other))
        np.testing.assert_array_equal(added, nulled)
        assert norm(added) <= most
        assert norm(replaced) <= 2 * most
        counted = cell_counts(with_rest(one), grid, config) - cell_counts(rest, grid, config)
        reach = counts_sensitivity(len(grid.columns), config) * 2.0**COUNT_BITS
        assert norm(counted) <= reach * (1 + 1e-12)
        longest = max(longest, norm(added) / most)
    assert longest > (0.6 if "persons" in kind else 0.8), "the bound is nearly attained"


def test_rows_without_a_record_are_not_counted():
    facts = schema_of().facts()
    config = TrainConfig(
        backend="clear", model="additive", open="each-step", classes=2, facts=facts,
        noise_multiplier=1.0, delta=1e-5, lr=0.4, rows_per_unit=3,
    )  # fmt: skip
    assert config.grid is not None
    own = rows_of(np.random.default_rng(0), config.grid, 2, 30, 3)
    assert own.empty is not None
    counts = cell_counts(own, config.grid, config) >> COUNT_BITS
    assert counts.sum() == len(config.grid.columns) * (30 - own.empty.sum())


def test_residuals_are_cut_in_integers_whatever_they_are():
    draw = np.random.default_rng(1)
    for outputs in (1, 2, 7):
        rows = draw.normal(size=(500, outputs)) * 10.0 ** draw.uniform(-6, 3, (500, 1))
        weights = draw.integers(0, 257, (500, 1))
        found = cut_residuals(rows, 0.5, weights)
        assert ((found * found).sum(axis=1) <= 1 << (2 * FRAC_BITS)).all()
        whole = cut_residuals(rows, 0.5, np.full((500, 1), 256))
        assert (np.abs(found) <= np.abs(whole)).all()
        short = np.linalg.norm(rows, axis=1) <= 0.5
        np.testing.assert_allclose(whole[short] / 2.0**FRAC_BITS, rows[short] / 0.5, atol=1e-5)
