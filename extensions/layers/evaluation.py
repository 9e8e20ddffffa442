"""How often a shared model is wrong: of the rows, one number is left to be opened."""

import functools
import operator
from collections.abc import Sequence
from typing import Literal

from extensions.errors import ArgumentError
from extensions.ring.interface import Bits, Ring, Share

FLAGS_OF_A_WORD = 62
"""Bits of a word that hold flags."""


def count_misses(
    ring: Ring, logits: Share, targets: Share, *, ties: Literal["right", "wrong"]
) -> Share:
    """Returns the sum of `count_misses_of` over all rows."""
    return count_misses_of(ring, logits, targets, ties=ties).sum(-1)


def count_misses_of(
    ring: Ring, logits: Share, targets: Share, *, ties: Literal["right", "wrong"]
) -> Share:
    """Returns, of each row, shares of 1 if another class's logit beats the true one's, else 0.

    Args:
        logits: shares of (rows, classes) or (candidates, rows, classes); a single class is compared
            with 0.
        targets: shares of one-hot rows (rows, classes), f fractional bits; 0 or 1 for a single
            class.
        ties: what a logit as high as the true class's makes of a row. With "wrong" a model that
            says the same of all classes is right nowhere.

    Guarantees:
        Exact while logits stay below 2^(61 - 2f) in magnitude.

    Cost:
        The rounds of a product, a comparison and `any_of`.
    """
    shape, labels = tuple(logits.shape), tuple(targets.shape)
    least = 1 if len(shape) == 2 else 2
    if len(labels) != 2 or shape[-2:] != labels:
        raise ArgumentError("targets", labels, f"(rows, classes) of logits {shape}", code="shape")
    if labels[1] < least:
        raise ArgumentError("classes", labels[1], f"at least {least} to be compared", code="range")
    if labels[1] == 1:
        logits, targets = _as_two_classes(ring, logits[:, 0], targets[:, 0])
    one, classes = 1 << ring.frac_bits, logits.shape[-1]
    (product,) = ring.mul([(logits, targets)])
    lead = product.sum(-1)[..., None] - logits * one
    if ties == "wrong":
        beaten = ring.less_than_bits(lead + targets * one, 1)
    else:
        beaten = ring.less_than_bits(lead, 0)
    return any_of(ring, [beaten[..., k] for k in range(classes)])


def any_of(ring: Ring, flags: Sequence[Bits]) -> Share:
    """Returns shares of 1 where any flag is set, else 0, for words that hold a flag in bit 0.

    Cost:
        The rounds of a suffix-or and a conversion for each `FLAGS_OF_A_WORD` flags, and where these
        are several, of a comparison and a conversion more.
    """
    found = []
    for start in range(0, len(flags), FLAGS_OF_A_WORD):
        some = flags[start : start + FLAGS_OF_A_WORD]
        word = functools.reduce(operator.xor, (flag << i for i, flag in enumerate(some)))
        found.append(ring.bits_to_arithmetic(ring.suffix_or(word), [0])[0])
    if len(found) == 1:
        return found[0]
    return ring.less_than(-functools.reduce(operator.add, found), [0])[0]


def _as_two_classes(ring: Ring, logit: Share, target: Share) -> tuple[Share, Share]:
    opposite = ring.add_public(-target, 1 << ring.frac_bits)
    return ring.stack([logit - logit, logit]).T, ring.stack([opposite, target]).T
