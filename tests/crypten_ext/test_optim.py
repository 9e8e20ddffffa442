"""Private steps in CrypTen equal PyTorch's per-example gradients, clipped and summed in NumPy.

Each step is compared from the weights at which it started, element by element, with the interval
of `tests.helpers.reference_dpsgd`; the noise is replayed exactly.
"""

import functools
import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from extensions.layers.activations import OUTPUT_SLACK, PiecewiseLinear, relu, sigmoid
from extensions.layers.losses import residual_norm
from extensions.privacy.accounting import epsilon
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM, StepPlan
from extensions.ring.fixed_point import ENCODING_SLACK
from tests.conftest import Pools
from tests.helpers.reference_dpsgd import factors, gradients, noise_of
from tests.helpers.strategies import chain_of_shapes, count_p_value

FEATURES, HIDDEN, CLASSES = 6, 5, 3
RECORDS, SEED, STEPS, RATE, LR, DELTA = 20, 11, 2, 0.6, 0.75, 1e-5
ALARM, MANY = 1e-10, 60
"""For each of about a thousand collectives."""

LINEAR: dict[str, Any] = {"widths": (FEATURES, CLASSES), "noise_multiplier": 0.8}
MLP = {**LINEAR, "widths": (FEATURES, HIDDEN, CLASSES), "degree": 4, "max_grad_norm": 1.0}
CASES: dict[str, dict[str, Any]] = {
    "nobody clipped": {**LINEAR, "max_grad_norm": 8.0},
    "some clipped": {**LINEAR, "max_grad_norm": 0.7, "frac_bits": 16},
    "all clipped": {**LINEAR, "max_grad_norm": 0.5, "degree": 4},
    "hidden": MLP,
    "hidden, 16 bits": {**MLP, "frac_bits": 16, "max_grad_norm": 4.0, "degree": 2},
    "hidden sigmoid": {**MLP, "activation": "Sigmoid"},
    "hidden, no bias": {**MLP, "bias": False},
    "host's": {**MLP, "style": "host"},
    "PyTorch's": {**MLP, "style": "torch"},
    "PyTorch's, no bias": {**MLP, "style": "torch", "bias": False},
    "PyTorch's, one layer": {**LINEAR, "max_grad_norm": 1.0, "style": "torch"},
    "softmax": {**LINEAR, "max_grad_norm": 0.7, "kind": "softmax"},
    "momentum": {
        **LINEAR,
        **{"max_grad_norm": 0.7, "momentum": 0.75, "decay": 0.4, "bias_scale": 0.5},
        **{"average": 0.6, "steps": 5},
    },
    "momentum, rising": {**LINEAR, "max_grad_norm": 0.7, "momentum": 0.75, "decay": 3.0},
    "SGD": {"widths": LINEAR["widths"], "optimizer": "SGD"},
    "SGD, hidden": {"widths": MLP["widths"], "optimizer": "SGD"},
}
PRIVATE = [name for name, options in CASES.items() if "optimizer" not in options]
ACCOUNTED = "hidden"
"""The case whose epsilon every party computes, which takes longer than its steps."""
both_pools = pytest.mark.parametrize("parties", [2, 3])
BETWEEN_TWO = ("some clipped", ACCOUNTED, "softmax")
"""Private cases that two parties compute by default; three compute all of them."""


def records(rank: int) -> dict[str, Any]:
    draws = np.random.default_rng(rank)
    x = draws.standard_normal((RECORDS, FEATURES))
    x *= draws.uniform(0.2, 1.0, (RECORDS, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    return {"x": np.trunc(x * 2**10) / 2**10, "y": draws.integers(0, CLASSES, RECORDS)}


@functools.cache
def run(pools: Pools, parties: int, case: str) -> tuple[list[dict[str, Any]], float | None]:
    """Returns the steps of a case, the same at every party, and the epsilon spent."""
    options = {"bias": True, **CASES[case]}
    draws, widths = np.random.default_rng(5), options.pop("widths")
    has_bias = options.pop("bias")
    parameters = [
        (draws.integers(-1024, 1025, (m, n)) / 2**10, draws.integers(-512, 513, m) / 2**10)
        for n, m in itertools.pairwise(widths)
    ]
    results = pools.run(
        parties,
        "tests.helpers.party_tasks.protocols:train",
        per_party=[records(rank) for rank in range(parties)],
        parameters=[(weight, bias if has_bias else None) for weight, bias in parameters],
        seed=SEED,
        sample_rate=RATE,
        delta=DELTA if case == ACCOUNTED else None,
        **{"lr": LR, "steps": STEPS, **options},
    )
    for mine, theirs in zip(results[0]["steps"], results[-1]["steps"], strict=True):
        for a, b in zip(mine["after"], theirs["after"], strict=True):
            np.testing.assert_array_equal(a, b)
    assert results[0]["epsilon"] == results[-1]["epsilon"]
    return results[0]["steps"], results[0]["epsilon"]


def activation_of(case: str) -> PiecewiseLinear:
    return sigmoid() if CASES[case].get("activation") == "Sigmoid" else relu()


def plan_of(parties: int, case: str, rows: int) -> StepPlan:
    """Returns the public constants that the optimizer is documented to derive."""
    options = {"frac_bits": 20, "bias": True, "max_grad_norm": 1.0, **CASES[case]}
    options = {"noise_multiplier": 0.0, "private": case in PRIVATE, **options}
    widths, has_bias = options.pop("widths"), options.pop("bias")
    loss = options.pop("kind", "sigmoid")
    scale = options.pop("bias_scale", 1.0)
    for name in ("optimizer", "style", "activation", "decay", "average", "steps"):
        options.pop(name, None)
    norms = [
        ENCODING_SLACK,
        *(OUTPUT_SLACK * activation_of(case).bound * math.sqrt(w) for w in widths[1:-1]),
    ]
    layers = [
        (n, m, has_bias, a) for (n, m), a in zip(itertools.pairwise(widths), norms, strict=True)
    ]
    delta_norm = residual_norm(loss, CLASSES)
    return StepPlan(
        layers=chain_of_shapes(
            layers,
            delta_norm=delta_norm,
            weight_norm=DEFAULT_WEIGHT_NORM,
            bias_bits=round(-math.log2(scale)),
        ),
        rows=rows,
        learning_rate=LR,
        expected_batch_size=RATE * RECORDS * parties,
        parties=parties,
        **options,
    )


def iterate_of_mean(mean: Any, steps: list[dict[str, Any]], count: int) -> Any:
    """Returns the last iterate, with which those before it have that mean."""
    others = [np.concatenate([p.ravel() for p in step["before"]]) for step in steps[1 - count :]]
    return count * mean - np.sum(others, axis=0)


def check_steps(pools: Pools, parties: int, case: str) -> list[float]:
    """Fails unless every step is that of the reference; returns the share of clipped examples.

    With momentum no step is truncated by more bits than an earlier one. What is opened after the
    last one may be the mean of the last iterates, in which an ulp is one of each of them.
    """
    steps, _ = run(pools, parties, case)
    plan = plan_of(parties, case, len(steps[0]["batch"][0]))
    activation, loss = activation_of(case), CASES[case].get("kind", "sigmoid")
    source, ulp, clipped = InsecureSeededSource(SEED), 2.0**-plan.frac_bits, []
    decay, shift, rough = CASES[case].get("decay", 1.0), 64, ulp
    count = max(1, round(CASES[case].get("average", 0.0) * len(steps)))
    carried: Any = 0.0
    for number, step in enumerate(steps):
        x, y, padding = step["batch"]
        real = padding == 0
        found = gradients(step["before"], x[real], y[real], plan, activation, loss)
        each = [factor.reshape(-1, 1) * found.values for factor in factors(found, plan)]
        low = (np.minimum(*each) - found.errors).sum(axis=0)
        high = (np.maximum(*each) + found.errors).sum(axis=0)
        noise = noise_of(step, plan, source) if plan.private else 0.0
        rate = LR * decay**number
        own = replace(plan, learning_rate=rate).step_ratio[1]
        shift = min(own, shift) if plan.momentum else own
        exact = math.ldexp(rate / plan.expected_batch_size, shift)
        ratio = math.ldexp(max(1, round(exact)), -shift) * found.inputs
        before, after = (np.concatenate([p.ravel() for p in step[k]]) for k in ("before", "after"))
        if number == len(steps) - 1 and count > 1:
            after, rough = iterate_of_mean(after, steps, count), (count + 1) * ulp
        moved = before - after - carried
        carried = plan.momentum * (before - after)
        assert (ratio * (low + noise) - rough <= moved).all()
        assert (moved <= ratio * (high + noise) + rough).all()
        # Softmax rounds each exponential by as much as 2^-10 of their sum.
        tight = 0.1 if loss == "softmax" else 0.05
        assert (high - low).max() < tight * np.abs(low).max()
        clipped.append(float((factors(found, plan)[1] < 1.0).mean()))
    return clipped


@pytest.mark.parametrize(
    ("case", "parties"),
    [
        *((case, 3) for case in PRIVATE),
        *((case, 2) for case in BETWEEN_TWO),
        *(
            pytest.param(case, 2, marks=pytest.mark.long)
            for case in PRIVATE
            if case not in BETWEEN_TWO
        ),
    ],
)
def test_steps_are_dpsgd_with_the_noise_that_was_drawn(pools, parties, case):
    clipped = check_steps(pools, parties, case)
    assert (max(clipped) == 0.0) == (CASES[case]["max_grad_norm"] >= 4.0)


@both_pools
@pytest.mark.parametrize("case", ["SGD", "SGD, hidden"])
def test_plain_sgd_is_that_of_pytorch(pools, parties, case):
    check_steps(pools, parties, case)


@both_pools
@pytest.mark.parametrize(
    ("case", "cost"),
    [
        ("some clipped", [2, 5, 0, 11]),
        ("hidden, 16 bits", [8, 5, 3, 11]),
        ("all clipped", [2, 5, 0, 13]),
        ("hidden sigmoid", [9, 5, 4, 13]),
        ("softmax", [2, 13, 0, 11]),
        ("momentum", [2, 5, 0, 11]),
        ("SGD", [2, 5, 0, 4]),
    ],
)
def test_a_step_takes_exactly_these_rounds(pools, parties, case, cost):
    """Forward, loss, backward, step: 18 for a linear model, 27 with one hidden layer; 26, softmax.

    The clip factor's degree is 2 in these, 4 in "all clipped". In the first step parties compare
    their settings in one round more, and in the last one a mean of iterates takes another.
    """
    steps, _ = run(pools, parties, case)
    for number, step in enumerate(steps):
        more = int(number == 0)
        more += int(number == len(steps) - 1 and "average" in CASES[case])
        assert step["rounds"] == [*cost[:3], cost[3] + more]
        assert len(step["traffic"]) == sum(cost) + more


@both_pools
@pytest.mark.parametrize("case", ["all clipped", "hidden", "SGD"])
def test_every_opened_word_is_masked(pools, parties, case):
    """A 64-bit word is below 2^40 with probability 2^-23 if masked, always if it is a value.

    All bits of a message are live (of MANY words some bit is not, with probability 2^-54), and
    balanced in its first half as in its second: unmasked thresholds, low and high, are not.
    """
    for number, step in enumerate(run(pools, parties, case)[0]):
        public = [sent for sent in step["traffic"] if sent["name"] == "all_gather"]
        assert [sent["words"] for sent in public] == [2 * parties] * (number == 0)
        traffic = [sent for sent in step["traffic"] if sent not in public]
        values = step["unmasked"]
        assert {sent["name"] for sent in traffic} == {"all_reduce"}
        assert {sent["live"] for sent in traffic if sent["words"] >= MANY} == {64}
        words, small = (sum(sent[key] for sent in traffic) for key in ("words", "small"))
        assert count_p_value(small, words, 2.0**-23) > ALARM
        for half in range(2):
            bits = 64 * sum((sent["words"] + 1 - half) // 2 for sent in traffic)
            assert count_p_value(sum(sent["ones"][half] for sent in traffic), bits, 0.5) > ALARM
        assert all(sent["small"] == sent["words"] for sent in values)
        assert count_p_value(values[0]["small"], words, 2.0**-23) < ALARM


@both_pools
def test_epsilon_is_that_of_the_accountant(pools, parties):
    _, spent = run(pools, parties, ACCOUNTED)
    options = {"noise_multiplier": 0.8, "sample_rate": RATE, "steps": STEPS, "delta": DELTA}
    expected = epsilon(**options, overflow_probability=OVERFLOW_PROBABILITY)
    assert spent == pytest.approx(expected, rel=1e-9)
    assert spent > epsilon(**{**options, "steps": STEPS - 1})
