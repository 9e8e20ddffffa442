"""What a model makes of held-out records, as sums that say more than how often it is wrong.

Each record enters few sums, so that they can be opened with accounted noise as well.
"""

import math
from typing import Literal, cast

import numpy as np

from extensions.network.evaluation import count_misses_of
from extensions.network.losses import Loss, predictions
from extensions.ring.fixed_point import Reals
from extensions.ring.interface import Ring, Share

Kind = Literal["bins", "classes", "moments"]

_STEPS = 15
_PER_STEP, _NARROW = 5.0, 3.0

EDGES: Reals = np.array(
    [math.sinh(step / _PER_STEP) / _NARROW for step in range(-_STEPS, _STEPS + 1)]
)
"""Log-odds between which a score of two classes is counted: 0, and closer together near it."""

BINS = len(EDGES) + 1


def kind_of(classes: int) -> Kind:
    """Returns which sums are made of a model with so many outputs."""
    return cast(Kind, {1: "moments", 2: "bins"}.get(classes, "classes"))


def cells(classes: int) -> int:
    """Returns the number of sums."""
    return {"moments": 3, "bins": 2 * BINS, "classes": 2 * classes}[kind_of(classes)]


def sensitivity(classes: int) -> float:
    """Returns a bound of the Euclidean norm by which one record moves all sums together.

    It enters one count; or, with an error and a target's distance from 1/2 that are at most 1 and
    1/2, moments of 1, 1/2 and 1/4.
    """
    return math.sqrt(1 + 1 / 4 + 1 / 16) if kind_of(classes) == "moments" else 1.0


def tally(ring: Ring, loss: Loss, logits: Share, targets: Share) -> Share:
    """Returns shares of sums over all rows, (cells,), f fractional bits.

    Args:
        ring: the host.
        loss: that the model was trained with, which says what its logits mean.
        logits: shares of (rows, outputs).
        targets: shares of the same shape, f fractional bits.

    Returns:
        Of one output the sums of (prediction - target)^2, of target - 1/2 and of its square. Of two
        classes, for each of them in turn, how many of its rows have a score in each bin between
        `EDGES`: the log-odds of class 1. Of more classes how many rows of each are predicted right,
        then how many wrong.

    Guarantees:
        Counts are exact while logits stay below 2^(61 - 2f) in magnitude; moments are right within
        one unit of the last place.

    Cost:
        The rounds of a prediction and a product; of a comparison, a conversion and a matrix
        product; or of `count_misses` and a matrix product.
    """
    kind = kind_of(logits.shape[-1])
    if kind == "moments":
        return _moments(ring, loss, logits, targets)
    if kind == "bins":
        return _bins(ring, loss, logits, targets)
    wrong = count_misses_of(ring, logits, targets, ties="wrong")
    right = ring.add_public(-wrong, 1)
    (counts,) = ring.matmul([(ring.stack([right, wrong]), targets)])
    return counts.reshape(-1)


def edges_of(loss: Loss, frac_bits: int) -> list[int]:
    """Returns where bins of the difference of two logits meet, as ring integers."""
    match loss:
        case "softmax":
            ends = EDGES
        case "sigmoid":
            ends = 2 * EDGES
        case "hard-sigmoid":
            ends = 4 * np.tanh(EDGES / 2)
        case _:
            ends = np.tanh(EDGES / 2)
    return [round(float(end) * (1 << frac_bits)) for end in ends]


def _bins(ring: Ring, loss: Loss, logits: Share, targets: Share) -> Share:
    score = logits[:, 1] - logits[:, 0]
    below = ring.less_than(score, edges_of(loss, ring.frac_bits))
    (upto,) = ring.matmul([(below, targets)])
    whole = targets.sum(0)
    count = len(EDGES)
    parts = [upto[0], *(upto[i] - upto[i - 1] for i in range(1, count)), whole - upto[count - 1]]
    return ring.stack(parts).T.reshape(-1)


def _moments(ring: Ring, loss: Loss, logits: Share, targets: Share) -> Share:
    f = ring.frac_bits
    apart = predictions(ring, loss, logits) - targets
    centred = ring.add_public(targets, -(1 << (f - 1)))
    squares = [square.sum(0) for square in ring.mul([(apart, apart), (centred, centred)])]
    errors, spread = ring.truncate([(square, f) for square in squares])
    return ring.stack([errors, centred.sum(0), spread]).reshape(-1)
