"""Layers with positions: squared norms never fall short, and no record moves the sum beyond C.

Contributions are those of adversarial records under the worst rounding, measured one by one.
"""

import math
from typing import Any

import numpy as np
import pytest

from extensions.layers.guards import Guard
from extensions.layers.linear_layers import LayerGradient, LayerShape
from extensions.protocols.dpsgd import clipped_sums, squared_norm_ratios
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.norms import unfolded
from extensions.protocols.norms.unfolded import passed
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, Reals, decode, encode
from tests.helpers.claims import claim
from tests.helpers.refused import refused
from tests.helpers.strategies import ROUNDINGS, plan_of

ROWS = 100
BOUNDS = (0.3, 1.0, 7.7)


def shape(positions: int, inputs: int, outputs: int, **more: Any) -> LayerShape:
    return LayerShape(
        in_features=inputs,
        out_features=outputs,
        positions=positions,
        **({"has_bias": True, "input_norm": 3.0, "delta_norm": 9.0} | more),
    )


SHAPES = {
    "materialised": (shape(9, 4, 3),),
    "ghost": (shape(3, 12, 10),),
    "without bias": (shape(3, 12, 10, has_bias=False), shape(9, 4, 3, has_bias=False)),
    "all ways": (shape(9, 4, 3), shape(3, 12, 10), shape(1, 6, 4), shape(1, 4, 2)),
    "bias alone": (shape(1, 4, 3, has_weight=False),),
    "parts": (
        shape(9, 4, 3),
        shape(3, 12, 10, has_weight=False, has_bias=False),
        shape(1, 6, 4, has_weight=False, bias_bits=2),
        shape(1, 4, 2),
    ),
}
shapes = pytest.mark.parametrize("layers", SHAPES.values(), ids=SHAPES)


class Recording(ClearRing):
    """Keeps what was truncated last: the deltas as they count in the clipped sums."""

    last: list[Integers]

    def truncate(self, items: Any) -> list[Integers]:
        self.last = super().truncate(items)
        return self.last


def records(plan: StepPlan, rows: int, seed: int) -> list[LayerGradient]:
    """Returns adversarial gradients: lengths near where something changes, and few directions.

    Rows of one direction make all inner products add up; entries half a unit above the grid that
    norms keep are where every rounding counts.
    """
    draws = np.random.default_rng(seed)
    lengths = plan.max_grad_norm * np.exp(draws.uniform(-1.2, 1.2, rows))
    near = draws.random(rows) < 0.6
    lengths[near] = plan.max_grad_norm * (1 + draws.normal(0, 0.01, near.sum()))
    found = []
    for s in plan.layers:
        sizes = (rows, s.positions)
        u, d = (draws.standard_normal((*sizes, n)) for n in (s.in_features, s.out_features))
        alike = draws.random(rows) < 0.5
        u[alike] = u[alike, :1] + 1e-3 * u[alike]
        d[alike] = d[alike, :1] * draws.choice([-1.0, 1.0], (int(alike.sum()), s.positions, 1))
        sparse = draws.random(rows) < 0.3
        d[sparse] *= draws.random(d[sparse].shape) < 0.2
        u *= (draws.uniform(0.01, 0.99, rows) * s.input_norm / lengths_of(u))[:, None, None]
        norm = np.sqrt(squares([(u, d)], [s])) + 1e-9
        scale = lengths / math.sqrt(len(plan.layers)) / norm
        cap = 0.99 * s.delta_norm / np.maximum(lengths_of(d), 1e-9)
        d *= np.minimum(scale, cap)[:, None, None]
        f = plan.frac_bits
        found.append(
            LayerGradient(
                inputs=encode(u.reshape(-1, s.in_features), f) if s.has_weight else None,
                deltas=encode(d.reshape(rows, -1), f) if s.is_trained else None,
                has_bias=s.has_bias,
                bias_bits=s.bias_bits,
            )
        )
    return found


def lengths_of(x: Reals) -> Reals:
    return np.sqrt((x**2).sum((1, 2)))


def parts(
    layers: list[LayerGradient], plan: StepPlan, scaled: list[Integers] | None = None
) -> list[tuple[Reals, Reals]]:
    """Returns inputs and deltas, or these as they were scaled; zeros of what is frozen."""
    rows, found = len(layers[-1].deltas), []
    own = iter(scaled or [x.deltas for x in layers if x.deltas is not None])
    bits = plan.factor_bits if scaled else plan.frac_bits
    for x, s in zip(layers, plan.layers, strict=True):
        u, d = (np.zeros((rows, s.positions, n)) for n in (s.in_features, s.out_features))
        if s.has_weight:
            u = decode(x.inputs, plan.frac_bits).reshape(u.shape)
        if s.is_trained:
            d = decode(next(own), bits).reshape(d.shape)
        found.append((u, d))
    return found


def squares(each: list[tuple[Reals, Reals]], layers: Any) -> Reals:
    """Returns the squared norms of all layers' gradients."""
    total = 0.0
    for (u, d), s in zip(each, layers, strict=True):
        total = total + (np.einsum("jpk,jpo->jok", u, d) ** 2).sum((1, 2))
        total = total + s.bias_norm**2 * (d.sum(1) ** 2).sum(1)
    return total


def contributions(ring: Recording, layers: list[LayerGradient], plan: StepPlan) -> Reals:
    """Returns by how much each record moves the sum, over all layers together."""
    clipped_sums(ring, layers, plan, None)
    return np.sqrt(squares(parts(layers, plan, ring.last), plan.layers))


def above(count: int, layers: Any, frac_bits: int, max_norm: float) -> tuple[int, float]:
    """Returns in how many cases a record moves the sum beyond C (1 + eta), and the largest move."""
    plan = plan_of(layers, frac_bits=frac_bits, max_grad_norm=max_norm, rows=ROWS)
    beyond, most = 0, 0.0
    for seed in range(count // ROWS):
        ring = Recording(frac_bits, rounding=ROUNDINGS[seed % len(ROUNDINGS)], seed=seed)
        moved = contributions(ring, records(plan, ROWS, seed), plan) / max_norm
        beyond += int((moved > (1 + plan.eta) * (1 + 1e-12)).sum())
        most = max(most, float(moved.max()))
    return beyond, most


@claim("No record moves the sum further than this sensitivity.")
@pytest.mark.parametrize("frac_bits", [16, 20])
@shapes
def test_no_record_moves_the_sum_beyond_the_sensitivity(layers, frac_bits):
    for max_norm in BOUNDS:
        beyond, most = above(2_000, layers, frac_bits, max_norm)
        assert beyond == 0
        assert most > 0.93


@pytest.mark.long
@pytest.mark.parametrize("frac_bits", [16, 20])
@shapes
def test_nor_does_any_of_a_hundred_thousand(layers, frac_bits):
    beyond, most = above(100_000, layers, frac_bits, 1.0)
    assert beyond == 0
    assert most > 0.93


def most_raised(gradients: list[LayerGradient], plan: StepPlan) -> Reals:
    """Returns the most by which rounding, and what covers it, can raise |g|^2 / C^2.

    Materialised, in units of the last bit: 2 |g| sqrt(N) + N for entries that are a unit longer,
    and 64 N. Ghost: what covers an error is at most P (trace D + trace U + 2 P) + 3 P^2, and so is
    the error itself. Linear: (x + 2) (y + 2) in place of x y. Of a bias alone: x + 2.
    """
    total = 0.0
    each = zip(parts(gradients, plan), plan.layers, plan.norm_bits, strict=True)
    for (u, d), s, (d_bits, u_bits) in each:
        p, unit = s.positions, 2.0 ** -(d_bits + u_bits)
        deltas = (d**2).sum((1, 2)) * 2.0**d_bits
        inputs = ((u**2).sum((1, 2)) + s.has_bias * p) * 2.0**u_bits
        if s.way == "materialised":
            half = 4.0 ** -((d_bits + u_bits) // 2)
            norm = np.sqrt(squares([(u, d)], [s]) / half)
            total = total + (2 * norm * math.sqrt(s.weights) + 65 * s.weights) * half
        elif s.way == "ghost":
            total = total + (2 * p * (deltas + inputs + 2 * p) + 4 * p * p) * unit
        elif s.way == "linear":
            total = total + (2 * (deltas + inputs) + 4) * unit
        elif s.way == "bias":
            total = total + 2.0 ** (1 - plan.bias_norm_bits(s))
    return total / plan.max_grad_norm**2


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("frac_bits", [16, 20])
@shapes
def test_squared_norms_are_rounded_up_and_not_far(layers, frac_bits, rounding):
    for max_norm in BOUNDS:
        plan = plan_of(layers, frac_bits=frac_bits, max_grad_norm=max_norm, rows=ROWS)
        gradients = records(plan, ROWS, 1)
        ring = ClearRing(frac_bits, rounding=rounding, seed=2)
        ratios, shift, _ = squared_norm_ratios(ring, gradients, plan)
        truth = squares(parts(gradients, plan), layers) / max_norm**2
        found = ratios / 2.0 ** (frac_bits + shift)
        assert (found >= truth * (1 - 1e-12)).all()
        raised = (1 + 2.0**-6) * (1 + 2.0**-9) * (truth + most_raised(gradients, plan))
        assert (found <= raised + 2.0 ** (1 - frac_bits)).all()


@pytest.mark.parametrize("way", ["materialised", "ghost"])
def test_the_same_records_fall_short_where_nothing_covers_roundings(way, monkeypatch):
    """What a check of the norms would miss if it could not fail."""
    squares_of = {"materialised": _sum_of_squares, "ghost": _sum_of_halves}[way]
    covered = unfolded.NORM_METHODS[way]

    def uncovered(ring: Any, gradient: Any, shape: Any, bits: Any) -> Any:
        asking = covered(ring, gradient, shape, bits)
        _, products = yield asking.send((yield next(asking)))
        return squares_of(shape, bits, products)

    monkeypatch.setitem(unfolded.NORM_METHODS, way, uncovered)
    monkeypatch.setattr(StepPlan, "norm_bound", property(lambda plan: plan.max_grad_norm))
    layers = SHAPES[way]
    plan, short = plan_of(layers, frac_bits=16, rows=ROWS), 0
    for seed in range(5):
        gradients = records(plan, ROWS, seed)
        ring = ClearRing(16, rounding="floor")
        ratios, shift, _ = squared_norm_ratios(ring, gradients, plan)
        truth = squares(parts(gradients, plan), layers)
        short += int((ratios / 2.0 ** (16 + shift) < truth * (1 - 1e-12)).sum())
    assert short > 50


def _sum_of_squares(shape: Any, bits: Any, products: Any) -> Any:
    total = sum(product.sum(-1) for product in products)
    return total * (1 << sum(bits) % 2)


def _sum_of_halves(shape: Any, bits: Any, products: Any) -> Any:
    count, (product,) = shape.positions, products
    return product[:, :count].sum(-1) + 2 * product[:, count:].sum(-1)


@pytest.mark.parametrize("name", ["all ways", "bias alone", "parts"])
def test_the_sum_is_that_of_the_gradients_where_none_is_clipped(name):
    plan = plan_of(SHAPES[name], frac_bits=16, max_grad_norm=40.0, rows=8)
    small = plan_of(SHAPES[name], frac_bits=16, max_grad_norm=1.0, rows=8)
    gradients = records(small, 8, 3)
    sums = clipped_sums(ClearRing(16, rounding="floor"), gradients, plan, None)
    each = zip(sums, parts(gradients, plan), plan.layers, strict=True)
    for found, (u, d), s in each:
        expected = np.einsum("jpk,jpo->ok", u, d), s.bias_norm * d.sum((0, 1))
        trained = s.has_weight, s.has_bias
        assert tuple(part is not None for part in found) == trained
        for part, want in zip(found, expected, strict=True):
            if part is not None:
                own = decode(part, 16 + plan.factor_bits)
                np.testing.assert_allclose(own, want, rtol=0, atol=1e-12)


GUARD = Guard(features=5, reach=5e5, limit=64.0)


def guarded(gradients: list[LayerGradient], below: Reals, plan: StepPlan) -> list[LayerGradient]:
    """Returns two layers, with what the guard of the second one looks at."""
    shift = GUARD.shift(plan.frac_bits)
    coarse = encode(below, plan.frac_bits) >> shift
    first, second = gradients
    return [
        first,
        LayerGradient(inputs=second.inputs, deltas=second.deltas, below=coarse),
    ]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("frac_bits", [16, 20])
def test_a_record_that_is_too_long_counts_for_nothing(frac_bits, padded):
    layers = (shape(9, 4, 3), shape(1, 5, 4, guard=GUARD))
    plan = plan_of(layers, frac_bits=frac_bits, rows=ROWS)
    draws = np.random.default_rng(1)
    below = draws.standard_normal((ROWS, 5))
    lengths = np.geomspace(1e-3, 4e5, ROWS)
    below *= (lengths / np.linalg.norm(below, axis=1))[:, None]
    gradients = records(plan, ROWS, 4)
    wild = draws.integers(-(2**62), 2**62, gradients[0].deltas.shape)
    gradients[0].deltas[lengths > 64] = wild[lengths > 64]
    padding = (np.arange(ROWS) % 3 == 0).astype(np.int64) if padded else None
    given = guarded(gradients, below, plan)
    ring = Recording(frac_bits, rounding="extreme", seed=1)
    flags = passed(ring, given, plan, padding)
    real = np.ones(ROWS, dtype=bool) if padding is None else padding == 0
    assert not flags[(lengths > 64) | ~real].any()
    assert flags[(lengths < 64 * 0.9) & real].all()
    clipped_sums(ring, given, plan, padding)
    scaled = ring.last[0].reshape(ROWS, -1)
    assert (scaled.any(axis=1) == flags.astype(bool)).all()


def test_the_plan_chooses_and_says_the_way_of_each_layer():
    plan = plan_of(SHAPES["all ways"])
    assert plan.ways == ["materialised", "ghost", "linear", "linear"]
    for s in plan.layers:
        ghost = s.positions * (s.positions + 1 + s.in_features + s.out_features)
        if s.way != "linear":
            assert (s.way == "ghost") == (ghost < s.weights)


def test_eta_is_that_of_all_positions():
    layers = SHAPES["all ways"]
    plan = plan_of(layers, max_grad_norm=0.5)
    squared = sum(s.positions * s.out_features * (9.0 + s.positions) for s in layers)
    expected = math.sqrt(squared) * 2.0**-plan.factor_bits / 0.5
    assert plan.eta == pytest.approx(expected)


def test_bounds_that_leave_the_ring_are_refused():
    with refused("layers", "value", [(1000.0, 1000.0)]):
        plan_of((shape(400, 40, 3000, input_norm=1000.0, delta_norm=1000.0),))
    with refused("frac_bits", "range", value=16):
        Guard(features=5, reach=2.0**40, limit=1.0).threshold(16)
