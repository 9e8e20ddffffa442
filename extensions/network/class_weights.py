"""Records of one class may count less than those of another: by public weights, in secret."""

import math
from collections.abc import Sequence

from extensions.ring.interface import Ring, Share

WEIGHT_BITS = 8
"""Fractional bits of weights."""


def row_weights(ring: Ring, targets: Share, weights: Sequence[float]) -> Share:
    """Returns shares of the weight of each row's class, `WEIGHT_BITS` fractional bits, (rows,).

    Args:
        targets: shares of one-hot rows (rows, classes), f fractional bits; zero in padding.
        weights: of the classes, in (0, 1], rounded down, but never to 0.

    Guarantees:
        Exact; 1 at most, and 0 in padding rows.

    Cost:
        The rounds of one truncation.
    """
    scaled = [max(1, math.floor(weight * (1 << WEIGHT_BITS))) for weight in weights]
    (total,) = ring.linear(targets.T, [scaled])
    (exact,) = ring.truncate([(total, ring.frac_bits)])
    return exact
