"""Ten steps of training on every host end within a derived distance of those of the clear ring.

From the same records, initial weights, samples and noise.
"""

import math

import numpy as np
import pytest

from extensions.layers.activations import sigmoid
from extensions.layers.linear_layers import LayerShape
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OwnRecords, draw_rows
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, Reals, decode, encode
from tests.conformance.arenas.arena import Arena
from tests.conformance.arenas.recipes import RECIPES
from tests.helpers.strategies import PRESETS

STEPS, RECORDS, ROWS, FEATURES, CLASSES = 10, 16, 12, 6, 3
SAMPLE_RATE = 0.4
SEED = 5
STEEPEST = max(sigmoid().slopes) * 2.0 ** -sigmoid().slope_bits


def plan_of(frac_bits: int, parties: int, max_grad_norm: float) -> StepPlan:
    shape = LayerShape(
        in_features=FEATURES,
        out_features=CLASSES,
        has_bias=True,
        input_norm=1.001,
        delta_norm=1.01 * math.sqrt(CLASSES),
    )
    return StepPlan(
        frac_bits=frac_bits,
        layers=(shape,),
        rows=ROWS,
        learning_rate=0.5,
        expected_batch_size=SAMPLE_RATE * RECORDS,
        max_grad_norm=max_grad_norm,
        noise_multiplier=0.3,
        degree=4,
        parties=parties,
    )


def batches(frac_bits: int) -> list[Integers]:
    """Returns features, targets and padding of Poisson samples with injected randomness."""
    draws = np.random.default_rng(2)
    x = draws.normal(size=(RECORDS, FEATURES))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    records = OwnRecords(
        features=encode(x, frac_bits),
        labels=encode(np.eye(CLASSES)[draws.integers(0, CLASSES, RECORDS)], frac_bits),
        frac_bits=frac_bits,
    )
    source = InsecureSeededSource(SEED)
    rows = [
        draw_rows(records, party=0, sample_rate=SAMPLE_RATE, rows=ROWS, source=source)
        for _ in range(STEPS)
    ]
    names = ("x", "y", "padding")
    return [np.stack([getattr(batch, name) for batch in rows]) for name in names]


def furthest(x: Reals, padding: Integers, plan: StepPlan) -> float:
    """Returns how far two hosts' parameters may lie apart after all steps, in Euclidean norm.

    With D the distance before a step, u an ulp and k classes, logits of a row (x, 1) lie apart by
    |(x, 1)| D + sqrt(k) u at most, deltas by the sigmoid's largest slope times that + sqrt(k) u.
    Exact clipping is a projection, which brings no two gradients further apart; a host's factor
    lies below the exact one by a relative error and the shortfall of its octave, and not at all
    where nothing is clipped. Each delta times its factor, and each update, is rounded by less than
    a unit.
    """
    unit, root = 2.0**-plan.frac_bits, math.sqrt(CLASSES)
    ratio = plan.step_ratio[0] * 2.0 ** -plan.step_ratio[1]
    longest = root * math.sqrt(2.0)
    clipped = longest >= 0.99 * plan.max_grad_norm
    octaves = range(1, plan.clip.range_bits + 1)
    reached = [e for e in octaves if 2.0 ** (e - 1) <= (longest / plan.max_grad_norm) ** 2]
    shortfall = max((plan.clip.shortfall(e) for e in reached), default=0.0)
    lost = plan.clip.fit.relative_error() * plan.max_grad_norm + shortfall * longest
    distance = 0.0
    for rows, is_padding in zip(x, padding, strict=True):
        norms = np.sqrt((rows[is_padding == 0] ** 2).sum(axis=1) + 1.0)
        apart = STEEPEST * (norms * distance + root * unit) + root * unit
        gradients = norms * (apart + 2 * root * 2.0**-plan.factor_bits)
        slack = len(norms) * lost if clipped else 0.0
        roundings = 2 * unit * math.sqrt(CLASSES * (FEATURES + 1))
        distance += ratio * (gradients.sum() + slack) + roundings
    return distance


@pytest.mark.hosts(frac_bits=[20], max_grad_norm=[0.5], arena=["toy", "crypten-3"])
@pytest.mark.parametrize("frac_bits", PRESETS)
@pytest.mark.parametrize(
    ("max_grad_norm", "tightest"), [(3.0, 2.0**9), (0.5, None)], ids=["nothing clipped", "clipped"]
)
def test_ten_steps(arena: Arena, frac_bits: int, max_grad_norm: float, tightest: float | None):
    plan = plan_of(frac_bits, arena.parties, max_grad_norm)
    x, targets, padding = batches(frac_bits)
    assert 0 < padding.mean() < 1
    start = encode(np.random.default_rng(3).normal(0, 0.1, (CLASSES, FEATURES)), frac_bits)
    given = [x, targets, padding, start, encode(np.zeros(CLASSES), frac_bits)]
    clear = ClearRing(frac_bits, parties=arena.parties, rounding="floor")
    want = RECIPES["train"](clear, *given, plan=plan, seed=SEED)
    got = arena.evaluate("train", given, frac_bits=frac_bits, plan=plan, seed=SEED)
    apart = [decode(a - b, frac_bits).ravel() for a, b in zip(got, want, strict=True)]
    moved = [decode(b - a, frac_bits).ravel() for a, b in zip(given[3:], want, strict=True)]
    limit = furthest(decode(x, frac_bits), padding, plan)
    assert np.linalg.norm(np.concatenate(apart)) <= limit
    assert np.linalg.norm(np.concatenate(moved)) > 10 * limit
    if tightest is not None:
        assert limit < tightest * 2.0**-frac_bits
