"""Falling rates, momentum, the mean of iterates, and the input of biases: exact, and in range."""

import itertools
import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from extensions.errors import ArgumentError
from extensions.layers.linear_layers import LayerGradient
from extensions.privacy.gaussian_table import TAIL
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import check_records
from extensions.protocols.dpsgd import clipped_sums, dpsgd_step
from extensions.protocols.optimizer import (
    TOTAL,
    Mean,
    State,
    iterates,
    largest_weight,
    multipliers,
    rule_of,
)
from extensions.protocols.updates import SGDRule
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import SAFE_BITS, decode, encode
from extensions.runs.config import TrainConfig
from extensions.runs.local_training import descend
from tests.helpers.refused import refused
from tests.helpers.strategies import MODELS, ROUNDINGS, directions, flat, gradients, random_batch
from tests.helpers.strategies import plan_of as step_plan

F = 20
ROWS, FEATURES, CLASSES = 40, 5, 3
CONFIG = TrainConfig(
    backend="clear", parties=1, classes=CLASSES, noise_multiplier=0.0, delta=1e-5, sample_rate=1.0,
    max_grad_norm=4.0, steps=10, lr=2.0, frac_bits=F,
)  # fmt: skip
ALL: dict[str, Any] = {"momentum": 0.75, "average": 0.4, "lr_schedule": "cosine"}


def records(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(ROWS, FEATURES))
    return x / np.linalg.norm(x, axis=1, keepdims=True), draw.integers(0, CLASSES, ROWS)


def trained(config: TrainConfig, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the weight and the bias that the protocol reaches from zeros."""
    own = check_records(x, y, frac_bits=F, classes=CLASSES, max_feature_norm=1.0)
    start = [(np.zeros((CLASSES, FEATURES), np.int64), np.zeros(CLASSES, np.int64))]
    ((weight, bias),) = descend(config, [own], start, InsecureSeededSource(1))
    return decode(weight, F), decode(bias, F)


def reference(config: TrainConfig, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns what gradient descent with heavy-ball momentum makes of a linear model of shares."""
    scale, targets = config.bias_scale, np.eye(CLASSES)[y]
    inputs = np.hstack([x, np.full((len(x), 1), scale)])
    weights, velocity = np.zeros((CLASSES, FEATURES + 1)), 0.0
    seen = []
    for rate in multipliers(config.lr_schedule, config.steps):
        residuals = inputs @ weights.T + 1 / CLASSES - targets
        velocity = config.momentum * velocity + config.lr * rate / len(x) * residuals.T @ inputs
        weights = weights - velocity
        seen.append(weights)
    mean = np.mean(seen[-iterates(config.average, config.steps) :], axis=0)
    return mean[:, :-1], scale * mean[:, -1]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"lr_schedule": "linear"},
        {"lr_schedule": "cosine"},
        {"momentum": 0.75},
        {"average": 0.4},
        {"average": 1.0},
        {"bias_scale": 0.25},
        {"bias_scale": 0.0},
        ALL,
        {**ALL, "bias_scale": 0.5},
    ],
    ids=str,
)
def test_a_run_is_the_descent_that_its_options_name(changes: dict[str, Any]):
    """No gradient is clipped; rates are right within 2^-11 of the first, factors within 2^-16."""
    config = replace(CONFIG, loss="least-squares", **changes)
    for found, want in zip(trained(config, *records()), reference(config, *records()), strict=True):
        np.testing.assert_allclose(found, want, atol=2e-3)
        assert np.abs(want).max() > 0.02 or not config.bias_scale
    plain = reference(replace(config, **dict.fromkeys(changes, None) | BARE), *records())
    assert not changes or np.abs(plain[0] - want_of(config)).max() > 4e-3


BARE: dict[str, Any] = {"momentum": 0.0, "average": 0.0, "lr_schedule": "constant", "bias_scale": 1}


def want_of(config: TrainConfig) -> np.ndarray:
    return reference(config, *records())[0]


def test_rates_fall_to_nothing_after_the_last_step():
    assert multipliers("constant", 3) == [1.0] * 3
    assert multipliers("linear", 4) == [1.0, 0.75, 0.5, 0.25]
    assert multipliers("cosine", 4) == pytest.approx([1, (1 + 2**-0.5) / 2, 0.5, (1 - 2**-0.5) / 2])
    plan = step_plan(learning_rate=0.31)
    first, exponent = plan.step_ratio
    for steps in (1, 25, 4000):
        rates = multipliers("cosine", steps)
        found = [SGDRule(plan).public(1, rate)[0] for rate in rates]
        assert found[0] == first
        assert min(found) >= 1
        wanted = np.array(multipliers("cosine", steps)) * 0.31 / plan.expected_batch_size
        errors = np.abs(np.ldexp(np.array(found, float), -exponent) - wanted)
        assert errors.max() <= 1.001 * 2.0**-9 * wanted[0]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("noise_multiplier", [0.0, 1.3])
@pytest.mark.parametrize("shapes", MODELS.values(), ids=MODELS)
def test_momentum_enters_the_one_truncation_exactly(shapes, noise_multiplier, rounding):
    momentum = 717 / 1024
    plan = step_plan(shapes, momentum=momentum, noise_multiplier=noise_multiplier, frac_bits=16)
    layers = gradients(random_batch(plan), plan)
    draw = np.random.default_rng(3)
    velocity = [
        (
            draw.integers(-(2**20), 2**20, (s.out_features, s.in_features)),
            draw.integers(-(2**20), 2**20, s.out_features),
        )
        for s in shapes
    ]
    runs = []
    for one in (replace(plan, momentum=0.0, rows=plan.rows), plan):
        ring = ClearRing(16, rounding=rounding, seed=6)
        given = velocity if one.momentum else None
        fine = replace(plan, momentum=one.momentum)
        assert plan.factor_bits == step_plan(shapes, momentum=momentum, frac_bits=16).factor_bits
        runs.append((fine, dpsgd_step(ring, layers, fine, InsecureSeededSource(7), velocity=given)))
    (_, without), (_, update) = runs
    for (w, b), (v, c), plain in zip(update, velocity, without, strict=True):
        for moved, last, alone in zip((w, b), (v, c), plain, strict=True):
            if moved is not None:
                extra = moved - alone - momentum * last
                assert np.abs(extra).max() <= 2 + 2 ** (16 - 10), "units of the last place"


def test_a_step_with_momentum_asks_for_the_velocity():
    plan = step_plan(momentum=0.5)
    with refused("velocity", "missing", value=None):
        dpsgd_step(ClearRing(16), gradients(random_batch(plan), plan), plan, SystemSource())


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9, 0.999])
def test_what_a_step_truncates_stays_below_2_to_the_62(momentum):
    """The largest sum in every step, and an ulp of rounding, which momentum carries over."""
    largest = 0.0
    rates = (0.3, 40.0, 1e6, *(24 * 2.0**-k for k in range(25, 36)))
    grid = itertools.product((12, 16, 18, 20), rates, (0, 3), (32, 900, 4096))
    for frac_bits, rate, bias_bits, rows in grid:
        with suppress(ArgumentError):
            plan = step_plan(
                tuple(replace(s, bias_bits=bias_bits) for s in MODELS["linear"]),
                frac_bits=frac_bits,
                momentum=momentum,
                learning_rate=rate,
                rows=rows,
                noise_multiplier=1.0,
            )
            eta = 1 + plan.eta
            total = rows * plan.max_grad_norm * eta + TAIL * plan.noise_scale(eta)
            sums = math.ldexp(total, frac_bits + plan.factor_bits) * plan.step_ratio[0]
            shift = plan.step_ratio[1] + plan.factor_bits + bias_bits
            kept = plan.momentum_numerator / 1024
            last = 0.0
            for _ in range(math.ceil(20 * plan.lasting)):
                last = sums + kept * (last + 2.0**shift)
            assert last < 2.0**SAFE_BITS
            largest = max(largest, last)
    assert largest > 2.0**59


@pytest.mark.parametrize("momentum", [-0.1, 0.9999, 1.0, math.nan])
def test_momentum_out_of_range_is_refused(momentum):
    for make in (lambda m: step_plan(momentum=m), lambda m: replace(CONFIG, momentum=m)):
        with refused("momentum", "range", momentum):
            make(momentum)


def test_momentum_makes_each_update_last_and_a_bias_counts_by_its_input():
    (shape,) = (replace(s, bias_bits=2) for s in MODELS["linear"])
    plan = step_plan((shape,), noise_multiplier=1.0)
    lasting = replace(plan, momentum=0.75)
    for name in ("largest_pull", "largest_noise"):
        assert getattr(lasting, name) == pytest.approx(4 * getattr(plan, name), rel=1e-4)
    squares = shape.out_features * (shape.input_norm**2 + 2.0**-4)
    assert plan.eta == pytest.approx(math.sqrt(squares) * 2.0**-plan.factor_bits)


@pytest.mark.parametrize("bias_bits", [0, 1, 8])
def test_a_bias_of_a_small_input_is_clipped_with_it(bias_bits):
    """The gradient is delta (x) (a, s), and no longer than C, in all directions and lengths."""
    shape = replace(MODELS["linear"][0], bias_bits=bias_bits)
    plan, s = step_plan((shape,), rows=1, max_grad_norm=0.7), 2.0**-bias_bits
    longest = 0.0
    for a in 1.9 * directions(shape.in_features)[:3]:
        for d in directions(shape.out_features):
            for part in (0.0, 1e-3, 1.0):
                for length in (0.1, 0.69, 0.75, 3.0, 11.0):
                    inputs, deltas = encode(part * a[None], 16), encode(length * d[None], 16)
                    layer = LayerGradient(inputs=inputs, deltas=deltas, bias_bits=bias_bits)
                    ((weight, bias),) = clipped_sums(ClearRing(16), [layer], plan, None)
                    parts = decode(np.concatenate([weight.ravel(), bias]), 16 + plan.factor_bits)
                    norm = float(np.linalg.norm(parts))
                    assert norm <= 0.7 * (1 + plan.eta)
                    longest = max(longest, norm)
                    whole = np.hypot(part * 1.9, s) * length
                    if whole < 0.69:
                        assert norm == pytest.approx(whole, rel=1e-2, abs=1e-3)
                        of_bias = decode(bias, 16 + plan.factor_bits)
                        np.testing.assert_allclose(of_bias, s * length * d, atol=1e-3)
    assert longest > 0.69


def test_a_step_and_its_plan_have_one_input_of_biases():
    plan = step_plan()
    layers = [replace(each, bias_bits=1) for each in gradients(random_batch(plan), plan)]
    with refused("layers", "value", "of which is trained [(True, True, 1)]"):
        clipped_sums(ClearRing(16), layers, plan, None)


def test_noise_of_a_bias_is_scaled_with_its_input_and_none_is_drawn_without():
    """Beside standard deviations of weights; 30,000 draws are within 3 % but for 1e-12."""
    wide = replace(MODELS["linear"][0], in_features=1, out_features=30_000)
    deviations = []
    for bits in (0, 2):
        plan = step_plan(
            (replace(wide, bias_bits=bits),), noise_multiplier=1.0, frac_bits=20, learning_rate=9.0
        )
        layer = LayerGradient(
            inputs=np.zeros((2, 1), np.int64),
            deltas=np.zeros((2, 30_000), np.int64),
            bias_bits=bits,
        )
        ((weight, bias),) = dpsgd_step(ClearRing(20), [layer], plan, SystemSource())
        deviations.append(float(bias.std() / weight.std()))
    assert deviations == pytest.approx([1.0, 0.25], rel=0.03)
    config = replace(CONFIG, noise_multiplier=1.0, bias_scale=0.0)
    weight, bias = trained(config, *records())
    assert weight.any()
    assert not bias.any()


@pytest.mark.parametrize("scale", [-1.0, 2.0, 0.3, 2.0**-9, math.nan, math.inf])
def test_an_input_of_biases_that_is_no_power_of_two_is_refused(scale):
    with refused("bias_scale", "range", scale):
        replace(CONFIG, bias_scale=scale)


def plans(config: TrainConfig, rows: int = ROWS) -> tuple[Any, float]:
    network = config.network(FEATURES)
    rule = rule_of(config, network, rows, float(ROWS))
    return rule.plan, largest_weight(config, network, rule)


@pytest.mark.parametrize("changes", [{}, ALL, {"momentum": 0.9}, {"bias_scale": 0.25}], ids=str)
def test_weights_keep_to_the_bound_and_come_close(changes):
    """All records are one, labelled so that its gradient is clipped in every step but the last."""
    config = replace(CONFIG, loss="least-squares", max_grad_norm=0.01, **changes)
    x, y = np.tile([[1.0, 0, 0, 0, 0]], (ROWS, 1)), np.zeros(ROWS, int)
    weight, bias = trained(config, x, y)
    moved = math.hypot(np.linalg.norm(weight), np.linalg.norm(bias) / (config.bias_scale or 1))
    _, bound = plans(config)
    assert moved <= bound
    assert moved > (0.2 if changes else 0.98) * bound


@pytest.mark.parametrize("lr", [0.1, 2.0, 10.0])
def test_residuals_that_nothing_cuts_are_within_what_steps_can_reach(lr):
    config = replace(CONFIG, loss="least-squares", lr=lr, momentum=0.5)
    plan, bound = plans(config)
    (shape,) = plan.layers
    length = math.hypot(shape.input_norm, 1.0)
    assert shape.delta_norm >= bound * length + math.sqrt(CLASSES)
    assert shape.delta_norm <= bound * length + 1.01 * math.sqrt(CLASSES)
    other = plans(replace(config, loss="sigmoid"))[0]
    assert other.layers[0].delta_norm < 2.0


def test_steps_that_may_reach_too_far_are_refused():
    with refused("layers", "value") as caught:
        plans(replace(CONFIG, loss="least-squares", lr=100.0))
    (note,) = caught.value.__notes__
    assert note.startswith("In 10 steps weights and residuals may grow to a norm of 4")
    plans(replace(CONFIG, loss="least-squares", lr=100.0, frac_bits=18))
    plan, bound = plans(replace(CONFIG, average=0.4))
    mean = Mean.over(0.4, CONFIG.steps, plan.frac_bits, bound)
    assert mean.count == 4
    assert [mean.counted(CONFIG.steps - back) for back in range(5)] == [3, 2, 1, 0, 0]
    with refused("average", "value", value=0.4):
        Mean.over(0.4, CONFIG.steps, plan.frac_bits, 2.0**31)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("count", [2, 3, 40, 1000])
def test_the_mean_is_that_of_the_last_iterates(count, rounding):
    """Right within an ulp and 2^-11 of the largest weight that there may be."""
    config = replace(CONFIG, steps=1000, average=count / 1000, lr=0.01)
    mean = Mean.over(config.average, config.steps, F, 50.0)
    assert (mean.count, sum(map(mean.counts, range(1, 1001)))) == (count, count - 1)
    assert [mean.counts(step) for step in (1000 - count + 1, 1000)] == [0, 1]
    models = encode(np.random.default_rng(1).uniform(-50, 50, (count, 6)), F)
    state = State(
        [(models[-1][:4], models[-1][4:])],
        {TOTAL: [(models[:-1, :4].sum(axis=0), models[:-1, 4:].sum(axis=0))]},
    )
    mean.finish(ClearRing(F, rounding=rounding, seed=1), state)
    found = flat(state.model)
    exact = decode(models, F).mean(axis=0)
    error = np.abs(decode(np.concatenate(found), F) - exact)
    assert error.max() <= 2.0**-F + 2.0**-11 * np.abs(exact).max()


@pytest.mark.parametrize("average", [-0.1, 1.1, math.nan])
def test_a_part_of_the_iterates_that_there_is_not_is_refused(average):
    with refused("average", "range", average):
        replace(CONFIG, average=average)
