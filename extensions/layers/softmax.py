"""Softmax of the rows of a matrix, from two piecewise-linear functions and no search for a maximum.

A row is centred first: its mean becomes zero, which is local. Its exponentials then sum to the
number of classes or more, so that those of negative values need not be precise relative to
themselves, and the sum's reciprocal has a known range. One step of Newton's iteration squares the
reciprocal's error, so that the residual of a confident row goes to zero; one that kept its sign
would let weights grow without end.
"""

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from extensions.layers.activations import PiecewiseLinear, activate, piecewise, sigmoid
from extensions.ring.interface import Ring, Share
from extensions.rules import Whole

SOFTMAX_CLASSES = 128
EXPONENTIAL_ERROR = 1 / 24
"""How far the chords' ends lie below exp(w): relative to it where it is above 1, else in all."""
PIECES = 15
LARGEST = PIECES * math.sqrt(16 * EXPONENTIAL_ERROR)
"""Centred logits above this are taken as this: 15 pieces of equal width, 12.25.

Two entries beyond it are equally likely, however far apart, and nothing holds either back: a
convolutional network's logits, which go to 12 by the true softmax, grew to 14 with a cut at 8.49,
and its accuracy was a quarter of a point less.
"""
WIDEST_PIECE = 1.5
RECIPROCAL_ERROR = 1 / 36
"""Relative, of the piecewise reciprocal.

A chord of 1 / S over S..1.5 S is at most 1/24 above; its ends are `_LOWERED` by half of that, 1/48.
The rest is for slopes, the least of which have 6 bits.
"""
_LOWERED = (WIDEST_PIECE - 1) ** 2 / (8 * WIDEST_PIECE)
MAX_ERROR = 7 / 128
"""Bound of the distance from the true softmax, for more than two classes.

With exponentials that are off by e of the larger of 1 and themselves, 0.0425 at most, an entry P
moves by e (2 P (1 - P) + P + (1 - 2 P) / classes) / (1 - 2 e) at most, and then by the square of
`RECIPROCAL_ERROR` of itself: 0.053 in all, where P is 0.75. The rest is for roundings.
"""


def softmax(ring: Ring, logits: Share) -> Share:
    """Returns the probabilities exp(z_i) / sum_j exp(z_j) of each row, f fractional bits.

    Args:
        logits: shares of (rows, classes), 2..128 classes.

    Guarantees:
        Whatever the logits are, no entry is negative, and those of a row sum to 1 at most and
        to 0.0008 less at least, but for two ulps each. Every entry is within `MAX_ERROR` and one
        ulp of the softmax of the row whose entries are cut off at `LARGEST` above its mean: of the
        row's own softmax where none is as large. (The most that was found is 0.025.) Two classes,
        whose softmax is the sigmoid of their difference, are within 0.0107 and one ulp of it, and
        at least -2^-13 less an ulp.

    Edge cases:
        Logits must stay below 2^(60 - f) / classes in magnitude.

    Cost:
        The rounds of two selections (`Ring.select`), 2 products and 3 truncations: 13. Two
        classes: a selection and a truncation: 5.
    """
    rows, classes = tuple(logits.shape)
    check_classes(classes)
    f = ring.frac_bits
    if classes == 2:
        second, _ = activate(ring, logits[:, 1] - logits[:, 0], sigmoid())
        return ring.stack([ring.add_public(-second, 1 << f), second]).T
    exp, inverse, bits = exponential(classes), reciprocal(classes), weight_bits(classes)
    centred = logits * classes - logits.sum(-1).reshape(rows, 1)
    powers, _ = piecewise(ring, centred, exp, f)
    (weights,) = ring.truncate([(powers, f + exp.slope_bits - bits)])
    total = weights.sum(-1).reshape(rows, 1)
    factor, _ = piecewise(ring, total, inverse, bits)
    (product,) = ring.mul([(factor, weights)])
    (near,) = ring.truncate([(product, 2 * bits + inverse.slope_bits - f)])
    correction = ring.add_public(-near.sum(-1).reshape(rows, 1), 2 << f)
    (product,) = ring.mul([(correction, near)])
    (result,) = ring.truncate([(product, f)])
    return result


def check_classes(classes: int) -> None:
    """Raises ArgumentError for a number of classes that `softmax` does not take."""
    Whole(2, SOFTMAX_CLASSES, f"in 2..{SOFTMAX_CLASSES} for softmax").check("classes", classes)


def weight_bits(classes: int) -> int:
    """Returns the fractional bits of exponentials: each loses at most 2^-10 of the least sum.

    They leave enough bits for slopes of the reciprocal at the largest sum.
    """
    return 10 - math.ceil(math.log2(classes))


@functools.cache
def exponential(classes: int) -> PiecewiseLinear:
    """Returns x -> exp(x / classes), within 0.0425 of itself where above 1, and in all where below.

    Zero on the left of x / classes = -3.2, constant on the right of `LARGEST`; the argument is a
    centred logit times the number of classes, so that no division is needed. Chords' ends lie
    `EXPONENTIAL_ERROR` below the function, so that their middles lie about as far above.
    """
    error = EXPONENTIAL_ERROR
    steps = math.floor((1 - math.sqrt(error)) / (2 * math.sqrt(error)))
    below = [2 * math.log(1 - 2 * math.sqrt(error) * i) for i in range(steps, 0, -1)]
    above = np.linspace(0.0, LARGEST, PIECES + 1).tolist()
    points = [(math.log(error), 0.0)]
    points += [(w, math.exp(w) - error * max(1.0, math.exp(w))) for w in (*below, *above)]
    return _chords(
        "exponential",
        [(classes * w, value) for w, value in points],
        slope_bits=11 + math.ceil(math.log2(classes)),
    )


@functools.cache
def reciprocal(classes: int) -> PiecewiseLinear:
    """Returns S -> 1 / S, within `RECIPROCAL_ERROR` of itself, for any sum that there can be.

    That is from classes (1 - 2 EXPONENTIAL_ERROR), less what rounding takes from each exponential,
    to classes exp(LARGEST); below it is constant. Thresholds are whole in `weight_bits`, as small
    values would not survive their rounding.
    """
    bits = weight_bits(classes)
    low = classes * (1 - 2 * EXPONENTIAL_ERROR - 2.0**-bits)
    high = classes * math.exp(LARGEST)
    pieces = math.ceil(math.log(high / low, WIDEST_PIECE))
    points = np.ldexp(np.rint(np.ldexp(np.geomspace(low, high, pieces + 1), bits)), -bits)
    return _chords(
        "reciprocal", [(s, (1 - _LOWERED) / s) for s in points.tolist()], slope_bits=60 - 2 * bits
    )


def _chords(
    name: str, points: Sequence[tuple[float, float]], *, slope_bits: int
) -> PiecewiseLinear:
    """Returns the function through these points, constant outside of them.

    Each slope leads from where the one before it came, so that what rounding took does not add up.
    """
    slopes: list[int] = []
    value = points[0][1]
    for (start, _), (end, target) in itertools.pairwise(points):
        slopes.append(round(math.ldexp((target - value) / (end - start), slope_bits)))
        value += math.ldexp(slopes[-1] * (end - start), -slope_bits)
    return PiecewiseLinear(
        name=name,
        thresholds=tuple(x for x, _ in points),
        slopes=(0, *slopes, 0),
        offset=points[0][1],
        slope_bits=slope_bits,
        bound=max(value for _, value in points),
    )
