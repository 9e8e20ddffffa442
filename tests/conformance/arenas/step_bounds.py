"""How far two hosts' DPSGD steps may lie apart, derived from what each truncation may do.

Notation: r is the ratio ||g||^2 / C^2 of an example, e its octave (2^(e-1) <= r < 2^e), S(r) the
polynomial times 2^(-e/2), a and d the layer's inputs and deltas.
"""

from collections.abc import Sequence

import numpy as np

from extensions.layers.linear_layers import LayerGradient
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.dpsgd import squared_norm_ratios
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.noise import summand_scale
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, Reals, decode

Layers = Sequence[LayerGradient]


def ratio_range(layers: Layers, plan: StepPlan, padding: Integers | None) -> list[tuple[int, int]]:
    """Returns the least and largest ratio of each example that any host may compute.

    Ratios are sums of products of values that are not negative, so rounding every one of them
    down, or every one up, is the extreme. What compares them may take one for two ulp more than it
    is. Padding rows lie beyond the range.
    """
    low, high = (
        squared_norm_ratios(ClearRing(plan.frac_bits, rounding=rounding), layers, plan)[:2]
        for rounding in ("floor", "ceiling")
    )
    least = low[0] >> low[1]
    largest = -(-high[0] >> high[1]) + (2 if high[1] else 0)
    if padding is not None:
        beyond = 1 << (plan.clip.live_bits + 1)
        least, largest = (np.where(padding == 1, beyond, x) for x in (least, largest))
    return list(zip(least.tolist(), largest.tolist(), strict=True))


def is_exact(low: int, high: int, plan: StepPlan) -> bool:
    """Whether every host must find the factor exactly 1, or exactly 0."""
    return high < 1 << plan.frac_bits or low >= 1 << plan.clip.live_bits


def octave(ratio: int, plan: StepPlan) -> int:
    return ratio.bit_length() - plan.frac_bits


def spread_between_hosts(ranges: list[tuple[int, int]], plan: StepPlan) -> Reals:
    """Returns how far apart the factors of two hosts may lie.

    Each lies in [S(r) - shortfall(e), S(r)], and S' is at most 2^(-e/2) 2^-e slope_u in magnitude.
    Needs examples whose ratios fall into one octave whatever the rounding.
    """
    result = []
    for low, high in ranges:
        if is_exact(low, high, plan):
            result.append(0.0)
            continue
        e = octave(low, plan)
        assert low >= 1 << plan.frac_bits, "an example at the threshold: choose another seed"
        assert e == octave(high, plan), "an example between octaves: choose another seed"
        steepest = 2.0 ** (-1.5 * e) * plan.clip.fit.slope_u
        result.append(plan.clip.shortfall(e) + steepest * (high - low) * 2.0**-plan.frac_bits)
    return np.array(result)


def spread_below_truth(ranges: list[tuple[int, int]], truth: Reals, plan: StepPlan) -> Reals:
    """Returns how far the factor may lie below its true value, which it never exceeds."""
    fit, result = plan.clip.fit, []
    for (low, high), best in zip(ranges, truth.tolist(), strict=True):
        if is_exact(low, high, plan):
            result.append(0.0)
            continue
        root = (high * 2.0**-plan.frac_bits) ** -0.5
        least = (1 - fit.relative_error()) * root - plan.clip.shortfall(octave(high, plan))
        result.append(best - least)
    return np.array(result)


def update_bounds(
    layers: Layers, plan: StepPlan, spread: Reals, ranges: list[tuple[int, int]]
) -> list[Reals]:
    """Returns how far the updates may lie apart, element by element.

    The factor times d is rounded by less than a unit of 2^-factor_bits, not at all if the factor
    is 0 or 1; what that leaves is multiplied by a, summed exactly and rounded by less than an ulp.
    Two hosts, or one and the truth: two such roundings at most.
    """
    unit = 2.0**-plan.factor_bits
    exact = [is_exact(*r, plan) and plan.factor_bits >= plan.frac_bits for r in ranges]
    rounding = np.where(exact, 0.0, 2 * unit).reshape(-1, 1)
    ratio = plan.step_ratio[0] * 2.0 ** -plan.step_ratio[1]
    bounds = []
    for layer in layers:
        a, d = (np.abs(decode(x, plan.frac_bits)) for x in (layer.inputs, layer.deltas))
        error = spread.reshape(-1, 1) * d + rounding
        bounds += [error.T @ a, error.sum(axis=0)] if layer.has_bias else [error.T @ a]
    return [ratio * bound + 2 * 2.0**-plan.frac_bits for bound in bounds]


def gradient_norms(layers: Layers, plan: StepPlan) -> Reals:
    """Returns ||g|| of every example in floating point, from materialised gradients."""
    total = np.zeros(len(layers[0].inputs))
    for layer in layers:
        a, d = (decode(x, plan.frac_bits) for x in (layer.inputs, layer.deltas))
        g = d[:, :, None] * a[:, None, :]
        total += (g**2).sum(axis=(1, 2)) + (d**2).sum(axis=1) * layer.has_bias
    return np.sqrt(total)


def replayed_noise(shapes: Sequence[tuple[int, ...]], plan: StepPlan, seed: int) -> list[Integers]:
    """Returns the sum of all parties' injected noise, in units of the clipped sums' last bit."""
    source, bits = InsecureSeededSource(seed), plan.frac_bits + plan.factor_bits
    scale = summand_scale(plan.parties, plan.sigma, frac_bits=bits, split=plan)
    noise = [np.zeros(shape, dtype=np.int64) for shape in shapes]
    for party in range(plan.parties):
        for total, shape in zip(noise, shapes, strict=True):
            total += source.gaussian(party, scale, shape)
    return noise
