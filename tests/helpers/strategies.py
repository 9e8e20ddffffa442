"""What the tests of the core share: awkward inputs, exact comparisons, exact tail probabilities."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats

from extensions.layers.linear_layers import LayerGradient, LayerShape
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.ring.clear import Rounding
from extensions.ring.fixed_point import Integers, decode, encode

ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)
PRESETS = (16, 20)
"""The fractional bits that every bound is tested at."""

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)

ALARM = 1e-8
"""False-alarm probability of one statistical assertion; with fewer than 100, 1e-6 for them all."""


def boundaries(bits: int) -> Integers:
    """Returns every 2^j and its neighbours one ulp away, within 1 .. 2^bits - 1."""
    near = {(1 << j) + step for j in range(bits + 1) for step in (-1, 0, 1)}
    return np.array(sorted(x for x in near if 1 <= x < 1 << bits), dtype=np.int64)


def sweep(frac_bits: int) -> Integers:
    """Returns 20,000 points over 0.01 .. 300 and all powers of two between, with neighbours."""
    points = np.rint(np.linspace(0.01, 300.0, 20_000) * 2**frac_bits).astype(np.int64)
    near = boundaries(frac_bits + 9)
    return np.concatenate([points, near[(near >= points[0]) & (near <= points[-1])]])


def live_integers(bits: int, low: int = 0) -> st.SearchStrategy[Integers]:
    """Draws arrays of integers in 2^low .. 2^bits - 1, every octave as likely as the next."""
    octave = st.integers(low, bits - 1)
    element = octave.flatmap(lambda j: st.integers(1 << j, (2 << j) - 1))
    return st.lists(element, min_size=1, max_size=40).map(lambda v: np.array(v, dtype=np.int64))


def above_inverse_root(x: Integers, y: Integers, frac_bits: int) -> list[tuple[int, int]]:
    """Returns the pairs of positive x and y with y > 1 / sqrt(x), decided in exact integers."""
    limit = 1 << (3 * frac_bits)
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return [(a, b) for a, b in pairs if b > 0 and b * b * a > limit]


def true_inverse_root(x: Integers, frac_bits: int) -> npt.NDArray[np.float64]:
    """Returns 1 / sqrt(x) in ulp, right to 2^-52 of itself."""
    return 2.0 ** (1.5 * frac_bits) / np.sqrt(x.astype(np.float64))


def variance_p_value(samples: npt.ArrayLike, variance: float) -> float:
    """Returns how likely the sum of squares of N(0, variance) draws is at least as extreme."""
    squares = np.asarray(samples, dtype=np.float64).ravel() ** 2 / variance
    total, degrees = float(squares.sum()), squares.size
    return 2 * min(stats.chi2.cdf(total, degrees), stats.chi2.sf(total, degrees))


def mean_p_value(samples: npt.ArrayLike, variance: float) -> float:
    """Returns how likely independent N(0, variance) draws have a mean at least as far from 0."""
    values = np.asarray(samples, dtype=np.float64).ravel()
    return 2 * stats.norm.sf(abs(values.sum()) / np.sqrt(values.size * variance))


def count_p_value(successes: int, trials: int, probability: float) -> float:
    """Returns how likely a count is at least as extreme: exact, by the binomial distribution."""
    law = stats.binom(trials, probability)
    return 2 * min(law.cdf(successes), law.sf(successes - 1))


def histogram_p_value(counts: Sequence[int], probabilities: Sequence[float]) -> float:
    """Returns how likely any count is at least as extreme, at most.

    Every count is binomial; the union bound over them holds where Pearson's statistic is only
    asymptotic.
    """
    trials = sum(counts)
    each = [count_p_value(n, trials, p) for n, p in zip(counts, probabilities, strict=True)]
    return len(each) * min(each)


BINS = 20
BINS_LIMIT = float(stats.chi2.isf(1e-9, BINS - 1))
"""What `bins_statistic` of right draws exceeds with probability 1e-9."""


def bins_statistic(draws: npt.ArrayLike, scale: float) -> float:
    """Returns the chi-square statistic of discrete Gaussians in twenty equally likely bins.

    Of 50,000 draws a scale 5 % off moves it by about 50,000 * 2 * 0.05^2 = 250, far beyond
    `BINS_LIMIT`, 84. Uniform values break ties within a unit: exactly so for a small scale.
    """
    x = np.asarray(draws)
    uniform = np.random.default_rng(2).random(x.shape)
    if scale > 100:
        quantiles = stats.norm.cdf((x + uniform - 0.5) / np.sqrt(scale**2 + 1 / 12))
    else:
        grid = np.arange(-40 * math.ceil(scale), 40 * math.ceil(scale) + 1)
        pmf = np.exp(-(grid**2) / (2 * scale**2))
        pmf /= pmf.sum()
        place = np.asarray(x - grid[0], dtype=np.int64)
        quantiles = (np.cumsum(pmf) - pmf)[place] + uniform * pmf[place]
    observed = np.histogram(quantiles, BINS, (0.0, 1.0))[0]
    return float(((observed - x.size / BINS) ** 2).sum() * BINS / x.size)


def directions(size: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """Returns nine unit vectors that rounding treats differently.

    Axes, a diagonal, alternating signs, one large coordinate among small ones, and random ones.
    """
    axis = np.eye(size)[[0, size - 1]]
    alternating = np.where(np.arange(size) % 2, -1.0, 1.0)
    lopsided = np.full(size, 2.0**-9)
    lopsided[size // 2] = -1.0
    random = np.random.default_rng(seed).standard_normal((3, size))
    rows = np.vstack([axis, -axis[:1], np.ones(size), alternating, lopsided, random])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


MAGNITUDES = np.array(
    [0, 2**-12, 0.5, 0.998, 1 - 2**-12, 1, 1 + 2**-12, 1.001, 1.9, 4, 15.99, 128, 255, 256.1, 1e3]
)
"""Lengths of gradients in units of the bound, most of them near where something changes."""


def squared_length(*arrays: Integers) -> int:
    """Returns the sum of the squares of all elements, exactly."""
    return sum(value * value for array in arrays for value in array.ravel().tolist())


def shape(inputs: int, outputs: int, a: float, d: float, *, has_bias: bool = True) -> LayerShape:
    return LayerShape(
        in_features=inputs, out_features=outputs, has_bias=has_bias, input_norm=a, delta_norm=d
    )


MODELS = {
    "linear": (shape(6, 4, 2.0, 12.0),),
    "hidden": (shape(5, 7, 2.0, 30.0), shape(7, 3, 4.0, 6.0)),
    "no bias": (
        shape(5, 7, 2.0, 30.0, has_bias=False),
        shape(7, 3, 4.0, 6.0),
        shape(3, 2, 1.0, 9.0),
    ),
}

ROWS = 32


def chain_of_shapes(
    layers: Sequence[tuple[int, int, bool, float]],
    *,
    delta_norm: float,
    weight_norm: float,
    bias_bits: int = 0,
) -> tuple[LayerShape, ...]:
    """Returns the shapes of a chain of linear layers, from input to output.

    Args:
        layers: (in_features, out_features, has_bias, input_norm) of each.
        delta_norm: bound of ||delta_j|| at the output.
        weight_norm: bound of each weight's Frobenius norm; slopes in between are at most 1.
        bias_bits: of all layers.
    """
    shapes: list[LayerShape] = []
    for in_features, out_features, has_bias, input_norm in reversed(layers):
        shapes.insert(
            0,
            LayerShape(
                in_features=in_features,
                out_features=out_features,
                has_bias=has_bias,
                input_norm=input_norm,
                delta_norm=delta_norm,
                bias_bits=bias_bits,
            ),
        )
        delta_norm *= weight_norm
    return tuple(shapes)


def plan_of(shapes: tuple[LayerShape, ...] = MODELS["linear"], **options: Any) -> StepPlan:
    defaults = {"frac_bits": 16, "layers": shapes, "rows": ROWS, "learning_rate": 0.3}
    defaults |= {"expected_batch_size": 24.0, "max_grad_norm": 1.0, "noise_multiplier": 0.0}
    return StepPlan(**{**defaults, "parties": 3, **options})


Example = list[tuple[np.ndarray, np.ndarray]]


def examples(shapes: tuple[LayerShape, ...], max_norm: float) -> Iterator[Example]:
    """Yields (a, delta) of every layer, in lengths and directions that are hard to clip."""
    bounds = [(s, directions(s.in_features), directions(s.out_features)) for s in shapes]
    for i, length in enumerate(MAGNITUDES * max_norm / math.sqrt(len(shapes))):
        for j in range(9):
            example = []
            for k, (s, along_a, along_d) in enumerate(bounds):
                a = along_a[(j + k) % 9] * s.input_norm * (0.0, 1e-3, 0.3, 0.999)[(i + j) % 4]
                norm = max(math.sqrt(a @ a + s.has_bias), 1e-3)
                example.append((a, along_d[j] * min(length / norm, 0.999 * s.delta_norm)))
            yield example
    for j in range(9):
        yield [(0.999 * a[j] * s.input_norm, 0.999 * d[-j] * s.delta_norm) for s, a, d in bounds]


def gradients(
    batch: list[Example], plan: StepPlan, *, supplied: bool = False
) -> list[LayerGradient]:
    """Returns the examples encoded, as one batch."""
    layers = []
    for k, s in enumerate(plan.layers):
        a, d = (encode([example[k][i] for example in batch], plan.frac_bits) for i in (0, 1))
        squares = (a * a).sum(axis=1) if supplied else None
        layers.append(LayerGradient(inputs=a, deltas=d, squared_norm=squares, has_bias=s.has_bias))
    return layers


def flat(sums: list[tuple[np.ndarray, np.ndarray | None]]) -> list[np.ndarray]:
    """Returns weights and biases in one list, layer by layer."""
    return [share for pair in sums for share in pair if share is not None]


def random_batch(plan: StepPlan, seed: int = 0, count: int = ROWS) -> list[Example]:
    """Returns examples whose gradients' norms spread over 0.1 C .. 30 C."""
    draws = np.random.default_rng(seed)
    batch = []
    for length in plan.max_grad_norm * 10.0 ** draws.uniform(-1.0, 1.5, count):
        example = []
        for s in plan.layers:
            a, d = draws.standard_normal(s.in_features), draws.standard_normal(s.out_features)
            a *= s.input_norm * draws.uniform(0.2, 0.99) / np.linalg.norm(a)
            norm = math.sqrt((a @ a + s.has_bias) * len(plan.layers))
            d *= min(length / norm, 0.99 * s.delta_norm) / np.linalg.norm(d)
            example.append((a, d))
        batch.append(example)
    return batch


def materialised(layers: list[LayerGradient], f: int, factor: Any) -> list[np.ndarray]:
    """Returns the sum of factor_j g_j in floating point, layer by layer."""
    result = []
    for layer in layers:
        d, a = decode(layer.deltas, f) * np.reshape(factor, (-1, 1)), decode(layer.inputs, f)
        result += [d.T @ a, d.sum(axis=0)] if layer.has_bias else [d.T @ a]
    return result


def uniform_p_value(values: np.ndarray) -> float:
    """Returns how likely uniform values have byte counts at least as extreme, at most.

    Each count is binomial; the union bound over all 256 holds where chi-square is asymptotic only.
    """
    counts = np.bincount(values.view(np.uint8), minlength=256)
    law = stats.binom(values.nbytes, 1 / 256)
    return 256 * 2 * float(np.minimum(law.cdf(counts), law.sf(counts - 1)).min())
