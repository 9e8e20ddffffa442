"""The losses of training: gradients at the logits, and what a record of each class counts."""

import math
from collections.abc import Sequence
from typing import Literal, get_args

from extensions.layers.activations import (
    OUTPUT_SLACK,
    activate,
    hard_sigmoid,
    sigmoid,
    unit_interval,
)
from extensions.layers.softmax import check_classes, softmax
from extensions.ring.interface import Ring, Share
from extensions.rules import one_of

Loss = Literal["sigmoid", "hard-sigmoid", "softmax", "squared", "least-squares"]
LOSSES: tuple[Loss, ...] = get_args(Loss)
SQUARED: tuple[Loss, ...] = ("squared", "least-squares")
"""Those of numbers, where a logit is a prediction but for a constant."""

WEIGHT_BITS = 8
"""Fractional bits of weights."""


def residual(ring: Ring, loss: Loss, logits: Share, targets: Share) -> Share:
    """Returns predictions less targets: the gradient of each row's loss at its logits.

    Args:
        loss: "sigmoid": the sum of a binary cross-entropy for each output, one class against all
            others. "hard-sigmoid": the same, with the sigmoid's tangent cut to 0..1 in its place.
            "softmax": one cross-entropy over all classes. "squared": half the squared distance of
            each output from its target, where the prediction is the logit plus 1/2, cut to the
            targets' range 0..1; a model of zeros predicts its middle. "least-squares": half the
            squared distance of the logit itself, plus `middle`, from the target.
        logits: shares of (rows, outputs).
        targets: shares of the same shape, f fractional bits.

    Guarantees:
        The norm of a row is at most `residual_norm`, whatever the logits are, for targets in [0, 1]
        and 12 or more fractional bits. Only that of "least-squares" depends on the logits' norm.

    Cost:
        5 rounds for "sigmoid" and "hard-sigmoid", 13 for "softmax" (two classes: 5), 4 for
        "squared"; "least-squares" has none. In CrypTen that is with whoever deals selections.

    Deviation:
        "squared" and "hard-sigmoid" leave out the derivative of the cut: where a prediction is
        beyond the range the residual still leads back into it.
    """
    if loss == "least-squares":
        offset = round(middle(loss, logits.shape[-1]) * (1 << ring.frac_bits))
        return ring.add_public(logits, offset) - targets
    return predictions(ring, loss, logits) - targets


def predictions(ring: Ring, loss: Loss, logits: Share) -> Share:
    """Returns what a model says of each row, (rows, outputs), in 0..1; as `residual` otherwise.

    Of "least-squares" it is cut to that range, as that of "squared" is.
    """
    match loss:
        case "softmax":
            return softmax(ring, logits)
        case "sigmoid":
            function = sigmoid()
        case "hard-sigmoid":
            function = hard_sigmoid()
        case "least-squares":
            function = unit_interval()
            beyond = middle(loss, logits.shape[-1]) - 0.5
            logits = ring.add_public(logits, round(beyond * (1 << ring.frac_bits)))
        case _:
            function = unit_interval()
    return activate(ring, logits, function)[0]


def middle(loss: Loss, outputs: int) -> float:
    """Returns what a model of zeros predicts with one of the losses `SQUARED`.

    1/2; with "least-squares" and several classes 1 / classes, so that residuals are 0 on average.
    """
    return 1 / outputs if loss == "least-squares" and outputs > 1 else 0.5


def residual_norm(loss: Loss, outputs: int, logits_norm: float = math.inf) -> float:
    """Returns a bound of the Euclidean norm of a row of `residual`, for targets in [0, 1].

    Probabilities that are not negative and sum to 1 are farthest from targets where one of them is
    1, its target 0 and all other targets 1: sqrt(outputs). One quarter more under the root covers
    an ulp of each of them. A logit itself is within the norm of a row of logits, on which
    "least-squares" depends, and a target within 1 of the middle.
    """
    one_of(LOSSES).check("loss", loss)
    if loss == "softmax":
        check_classes(outputs)
        return math.sqrt(outputs + 0.25)
    cut = OUTPUT_SLACK * math.sqrt(outputs)
    return cut + logits_norm if loss == "least-squares" else cut


def scaled_weights(weights: Sequence[float]) -> list[int]:
    """Returns weights in (0, 1], `WEIGHT_BITS` fractional bits, rounded down, but never to 0."""
    return [max(1, math.floor(weight * (1 << WEIGHT_BITS))) for weight in weights]


def row_weights(ring: Ring, targets: Share, weights: Sequence[float]) -> Share:
    """Returns shares of the weight of each row's class, `WEIGHT_BITS` fractional bits, (rows,).

    Targets are one-hot rows (rows, classes), f fractional bits, zero in padding. Weights are as
    in `scaled_weights`. Exact: 1 at most, and 0 in padding; the rounds of one truncation.
    """
    (total,) = ring.linear(targets.T, [scaled_weights(weights)])
    (exact,) = ring.truncate([(total, ring.frac_bits)])
    return exact
