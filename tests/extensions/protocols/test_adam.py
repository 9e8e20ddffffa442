"""Adam on shares is Adam, the noise's variance taken out, and moves no further than it says."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from extensions.errors import ArgumentError
from extensions.layers.linear_layers import LayerShape
from extensions.privacy.accounting import Ledger
from extensions.privacy.gaussian_table import TAIL
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.optimizer import rule_of
from extensions.protocols.settings import ScriptTraining
from extensions.protocols.updates.adam import EPS, AdamRule, Betas, Moments, adam_step
from extensions.ring.clear import ClearRing, Rounding
from extensions.ring.fixed_point import decode
from extensions.runs.config import TrainConfig
from tests.extensions.protocols.test_optimizer import CLASSES, CONFIG, FEATURES, F, records, trained
from tests.helpers.refused import refused
from tests.helpers.strategies import ROUNDINGS

SHAPE = LayerShape(
    in_features=7, out_features=4, has_bias=True, input_norm=1.0, delta_norm=2.0, bias_bits=1
)
BITS = [0, SHAPE.bias_bits]


def plan(noise: float = 1.0, **options: Any) -> AdamRule:
    step = StepPlan(
        frac_bits=F,
        layers=(SHAPE,),
        rows=60,
        learning_rate=0.01,
        expected_batch_size=40.0,
        max_grad_norm=0.5,
        noise_multiplier=noise,
        parties=3,
    )
    return AdamRule(step, **options)


def sums_of(plan: AdamRule, steps: int, seed: int = 0) -> list[list[np.ndarray]]:
    """Returns sums with a signal in half of all weights, and noise of a unit in each."""
    draws = np.random.default_rng(seed)
    signal = draws.normal(0, 3, (4, 7)) * (np.arange(7) < 4), draws.normal(0, 3, 4)
    return [[plan.unit * (s + draws.normal(0, 1, s.shape)) for s in signal] for _ in range(steps)]


def reference(plan: AdamRule, sums: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """Returns what each step takes from weights and biases, by the formulas of the papers."""
    b1, b2 = (n / 1024 for n in plan.betas.numerators)
    moments = [(0.0, 0.0)] * 2
    found = []
    for t, parts in enumerate(sums, start=1):
        taken = []
        for i, part in enumerate(parts):
            g, (m, v) = part / plan.unit, moments[i]
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
            moments[i] = m, v
            spread = np.maximum(v / (1 - b2**t) - plan.noisy, plan.least)
            step = plan.plan.learning_rate * m / (1 - b1**t) / np.sqrt(spread)
            taken.append(step * 2.0 ** -BITS[i])
        found.append(taken)
    return found


def computed(plan: AdamRule, sums: list[list[np.ndarray]], rounding: Rounding) -> Any:
    ring = ClearRing(F, rounding=rounding, seed=1)
    zeros = [np.zeros(part.shape, np.int64) for part in sums[0]]
    moments = Moments(zeros, zeros)
    for t, parts in enumerate(sums, start=1):
        bits = F + plan.plan.factor_bits
        own = [np.rint(np.ldexp(part, bits)).astype(np.int64) for part in parts]
        moved, moments = adam_step(ring, own, moments, plan, plan.public(t), BITS)
        yield [decode(part, F) for part in moved]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"betas": Betas(0.5, 0.9), "floor": 1.0},
        {"betas": Betas(0.0, 0.999)},
        {"noise": 0.0, "eps": 2.0**-4},
    ],
    ids=str,
)
def test_steps_are_those_of_the_papers(options: dict[str, Any], rounding: Rounding):
    """1/sqrt is at most 0.64 % below; what a few ulps make of a small second moment is the rest."""
    own = plan(**options)
    sums = sums_of(own, 12)
    largest = 0.0
    for found, wanted in zip(computed(own, sums, rounding), reference(own, sums), strict=True):
        for part, want in zip(found, wanted, strict=True):
            largest = max(largest, np.abs(want).max())
            np.testing.assert_allclose(part, want, rtol=0.025, atol=1e-4)
    assert largest > 0.005


def test_the_noises_variance_is_what_is_taken_out():
    """Without it in the second moment a step follows the signal alone; DP-Adam's is shorter."""
    own = plan(betas=Betas(0.9, 0.999))
    draws = np.random.default_rng(3)
    steps = [[own.unit * draws.normal(0.25, 1, (40, 70)), np.zeros(4)] for _ in range(150)]
    *_, (last, _) = computed(own, steps, "probabilistic")
    corrected = own.plan.learning_rate * 0.25 / math.sqrt(0.25**2)
    uncorrected = own.plan.learning_rate * 0.25 / math.sqrt(0.25**2 + 1)
    assert abs(last.mean() - corrected) < 0.25 * abs(corrected)
    assert last.mean() > 2 * uncorrected


@pytest.mark.parametrize("betas", [Betas(), Betas(0.5, 0.9), Betas(0.9, 0.6)], ids=str)
def test_no_step_is_longer_than_stated(betas: Betas):
    """Gradients come and go in all ways that make quotients large: one after none, or for long."""
    own = plan(betas=betas)
    pulled = 0.999 * (own.largest - 6.0) * own.unit
    direction = np.random.default_rng(1).normal(size=32)
    direction *= pulled / np.linalg.norm(direction)
    weight, bias = direction[:28].reshape(4, 7), direction[28:]
    for pattern in ([1] * 30, [0] * 20 + [1] * 10, [1, -1] * 15, [1e-2] * 25 + [1] * 5):
        sums = [[s * weight, s * bias] for s in pattern]
        for parts in computed(own, sums, "extreme"):
            length = np.linalg.norm(np.concatenate([parts[0].ravel(), 2 * parts[1]]))
            assert length <= own.largest_pull + 40 * 2.0**-F


def test_a_step_of_many_weights_at_the_floor_is_no_longer_than_stated():
    """A steady gradient, no longer than all rows' pulls, each entry of which the noise hides."""
    own = plan()
    own = replace(own, plan=replace(own.plan, layers=(replace(SHAPE, in_features=700),)))
    steps = [[np.full((4, 700), 0.9 * own.unit), np.zeros(4)]] * 3
    assert 0.9 * math.sqrt(4 * 700) <= own.largest - TAIL
    lengths = [np.linalg.norm(weight) for weight, _ in computed(own, steps, "extreme")]
    assert own.largest_pull / 3 < max(lengths) <= own.largest_pull


def test_a_run_takes_these_steps():
    """Of a linear model whose gradients are not clipped, in full batches, without noise."""
    config = replace(CONFIG, loss="least-squares", optimizer="adam", lr=0.05, average=0.5)
    weight, bias = trained(config, *records())
    x, y = records()
    inputs, seen = np.hstack([x, np.ones((len(x), 1))]), []
    own = np.zeros((CLASSES, FEATURES + 1))
    m = v = 0.0
    b1, b2 = (n / 1024 for n in Betas().numerators)
    for t in range(1, config.steps + 1):
        g = (inputs @ own.T + 1 / CLASSES - np.eye(CLASSES)[y]).T @ inputs / len(x)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        spread = np.maximum(v / (1 - b2**t), EPS**2)
        own = own - config.lr * m / (1 - b1**t) / np.sqrt(spread)
        seen.append(own)
    mean = np.mean(seen[-5:], axis=0)
    np.testing.assert_allclose(weight, mean[:, :-1], atol=0.02 * np.abs(mean).max())
    np.testing.assert_allclose(bias, mean[:, -1], atol=0.02 * np.abs(mean).max())


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_pieces_add_up_to_the_step(optimizer: str):
    """Noise is that of one step, drawn once; rows are rounded apart, within an ulp each."""
    config = replace(
        CONFIG, noise_multiplier=0.5, optimizer=optimizer, lr=0.1, sample_rate=0.5, steps=4
    )
    whole, pieces = (
        np.concatenate([part.ravel() for part in trained(each, *records())])
        for each in (config, replace(config, physical_rows=7))
    )
    assert np.abs(whole).max() > 0.05
    np.testing.assert_allclose(pieces, whole, atol=2e-4 if optimizer == "sgd" else 4e-3)


def accuracy(config: TrainConfig, x: np.ndarray, y: np.ndarray) -> float:
    weight, bias = trained(config, x, y)
    return float((np.argmax(x @ weight.T + bias, axis=1) == y).mean())


def test_adam_learns_what_dpsgd_learns_with_the_same_noise():
    """Each at its usual rate; features of different lengths, where plain steps are slow."""
    draws = np.random.default_rng(2)
    centres = draws.normal(size=(CLASSES, FEATURES))
    y = np.arange(300) % CLASSES
    x = centres[y] + 0.5 * draws.normal(size=(300, FEATURES))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    base = replace(CONFIG, noise_multiplier=1.0, sample_rate=0.5, steps=30, max_grad_norm=1.0)
    sgd = accuracy(replace(base, lr=1.0), x, y)
    adam = accuracy(replace(base, optimizer="adam", lr=0.1), x, y)
    assert min(sgd, adam) > 0.85


def test_epsilon_is_that_of_the_sums():
    ledgers = []
    for optimizer in ("sgd", "adam"):
        config = replace(CONFIG, noise_multiplier=1.0, optimizer=optimizer, lr=0.1)
        rule_of(config, config.network(FEATURES), 40, 20.0)
        ledger = Ledger()
        ledger.record("training", noise_multiplier=1.0, sample_rate=1.0, steps=config.steps)
        ledgers.append(ledger.get_epsilon(1e-5))
    assert ledgers[0] == ledgers[1]


@pytest.mark.parametrize(
    ("name", "value"),
    [("beta1", 1.0), ("beta2", 0.25), ("adam_floor", 2.0), ("eps", 0.0), ("momentum", math.nan)],
)
def test_settings_out_of_range_are_refused(name: str, value: float):
    with refused(name, "range", value):
        ScriptTraining(noise_multiplier=1.0, **{name: value})  # type: ignore[arg-type]


def test_what_does_not_fit_the_ring_is_refused():
    with refused("eps", "value", value=1.52587890625e-05):
        plan(noise=0.0, eps=2.0**-16)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "rmsprop"},
        {"optimizer": "adam", "momentum": 0.5},
        {"optimizer": "adam", "beta2": 0.2},
        {"optimizer": "adam", "adam_floor": 2.0},
        {"physical_rows": 0},
        {"optimizer": "adam", "open": "each-step"},
    ],
    ids=str,
)
def test_settings_of_a_run_that_do_not_fit_are_refused(changes: dict[str, Any]):
    with pytest.raises(ArgumentError):
        replace(CONFIG, noise_multiplier=1.0, **changes)


def test_hidden_weights_keep_to_their_bound():
    config = replace(CONFIG, model="mlp:8", noise_multiplier=1.0, optimizer="adam", lr=0.5)
    with refused("learning_rate", "value", value=0.5):
        rule_of(replace(config, steps=500), config.network(FEATURES), 40, 20.0)
