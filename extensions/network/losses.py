"""The losses of training, of which only the gradient at the logits is computed."""

import math
from typing import Literal, get_args

from extensions.errors import ArgumentError
from extensions.network.activations import OUTPUT_SLACK, activate, sigmoid, unit_interval
from extensions.network.softmax import check_classes, softmax
from extensions.ring.interface import Ring, Share

Loss = Literal["sigmoid", "softmax", "squared"]
LOSSES: tuple[Loss, ...] = get_args(Loss)


def residual(ring: Ring, loss: Loss, logits: Share, targets: Share) -> Share:
    """Returns predictions less targets: the gradient of each row's cross-entropy at its logits.

    Args:
        ring: the host.
        loss: "sigmoid": the sum of a binary cross-entropy for each output, one class against all
            others. "softmax": one cross-entropy over all classes. "squared": half the squared
            distance of each output from its target, where the prediction is the logit plus 1/2, cut
            to the targets' range 0..1; a model of zeros predicts its middle.
        logits: shares of (rows, outputs).
        targets: shares of the same shape, f fractional bits.

    Guarantees:
        The norm of a row is at most `residual_norm`, whatever the logits are, for targets in [0, 1]
        and 12 or more fractional bits.

    Cost:
        In CrypTen 5 rounds for "sigmoid", 11 for "softmax" (two classes: 5), 4 for "squared"; in
        ABY3 6, 13 (6) and 5.

    Deviation:
        "squared" leaves out the derivative of the cut: where a prediction is beyond the range the
        residual still leads back into it.
    """
    return predictions(ring, loss, logits) - targets


def predictions(ring: Ring, loss: Loss, logits: Share) -> Share:
    """Returns what a model says of each row, (rows, outputs), in 0..1; as `residual` otherwise."""
    if loss == "softmax":
        return softmax(ring, logits)
    return activate(ring, logits, unit_interval() if loss == "squared" else sigmoid())[0]


def residual_norm(loss: Loss, outputs: int) -> float:
    """Returns a bound of the Euclidean norm of a row of `residual`, for targets in [0, 1].

    Probabilities that are not negative and sum to s are farthest from targets where one of them is
    s, its target 0 and all other targets 1: sqrt(outputs - 1 + s^2), with s at most
    `softmax.LARGEST_SUM`, 1.022. One quarter more under the root covers s and the roundings.

    Raises:
        ArgumentError: an unknown loss, or one that does not take so many outputs.
    """
    if loss not in LOSSES:
        raise ArgumentError("loss", loss, f"one of {LOSSES}")
    if loss == "softmax":
        check_classes(outputs)
        return math.sqrt(outputs + 0.25)
    return OUTPUT_SLACK * math.sqrt(outputs)
