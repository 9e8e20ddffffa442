"""Where every entry of our softmax must lie, by exact arithmetic, whatever a host rounds."""

import math

import numpy as np

from extensions.layers.softmax import exponential, reciprocal, weight_bits
from extensions.ring.fixed_point import Integers, Reals
from tests.extensions.layers.test_activations import exact


def softmax_interval(logits: Integers, frac_bits: int, error: float = 0.0) -> tuple[Reals, Reals]:
    """Returns the least and the largest probabilities of rows of three classes or more.

    Exponentials are rounded by less than a unit, and so is the product; the exponential rises and
    the reciprocal falls, so that the ends come from ends.

    Args:
        logits: (rows, classes).
        frac_bits: fractional bits f.
        error: how far each logit may be from what is given.
    """
    _, classes = logits.shape
    exp, inverse, bits = exponential(classes), reciprocal(classes), weight_bits(classes)
    centred = classes * logits - logits.sum(axis=1, keepdims=True)
    moved = math.ceil(2 * classes * error * 2**frac_bits)
    ends = []
    for sign in (-1, 1):
        value, _ = exact(exp, centred + sign * moved, frac_bits)
        ends.append(np.maximum(np.ldexp(value, bits - frac_bits - exp.slope_bits) + sign, 0.0))
    least, most = ends
    sums = [np.floor(least.sum(1)).astype(np.int64), np.ceil(most.sum(1)).astype(np.int64)]
    largest, smallest = (
        np.ldexp(exact(inverse, total, bits)[0], -2 * bits - inverse.slope_bits)[:, None]
        for total in sums
    )
    ulp = 2.0**-frac_bits
    lowest = np.minimum(
        newton(smallest, most.sum(1)[:, None]), newton(largest, most.sum(1)[:, None])
    )
    total = least.sum(1)[:, None]
    highest = newton(np.clip(1 / total, smallest, largest), total)
    rounded = (2 + classes) * ulp
    return least * lowest - rounded, most * highest + rounded


def newton(inverse: Reals, total: Reals) -> Reals:
    """Returns the inverse of a sum after one step of Newton's iteration: never above 1 / total."""
    return inverse * (2 - inverse * total)


def true_softmax(logits: Reals, largest: float = math.inf) -> Reals:
    """Returns the softmax of each row, its entries cut off at `largest` above their mean."""
    centred = np.minimum(logits - logits.mean(axis=1, keepdims=True), largest)
    powers = np.exp(centred - centred.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
