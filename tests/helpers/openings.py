"""Every word that a host opens under dealt masks, for secrets that are all zero."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from extensions.ring.fixed_point import Integers
from extensions.ring.masked_opening import MaskedOpening
from extensions.ring.planes import LANES
from extensions.ring.tuples import (
    BitWords,
    Correlation,
    Dealt,
    RandomPlanes,
    RandomWords,
    Sharing,
    TruncationPair,
    WordMasks,
)
from tests.helpers.strategies import count_p_value

COUNT, THRESHOLDS = 400, 16
KINDS = tuple(
    kind.__name__ for kind in (RandomWords, RandomPlanes, TruncationPair, BitWords, WordMasks)
)


def record_openings(
    ring: MaskedOpening, zeros: Any, unmasked: str = "", seen: list[Any] | None = None
) -> list[Any]:
    """Returns all opened words of every block of a ring.

    Args:
        ring: the host's, which is of no use afterwards.
        zeros: shares of COUNT zeros.
        unmasked: name of a correlation, or of what is dealt jointly, of which zeros are dealt;
            results are as right with it.
        seen: the list to fill.
    """
    seen = [] if seen is None else seen
    ring.open_sum, ring.open_xor = noting(ring.open_sum, seen), noting(ring.open_xor, seen)
    ring.deal = _cancelling(ring.deal, unmasked)
    if hasattr(ring, "deal_joint"):
        ring.deal_joint = _cancelling_joint(ring.deal_joint, unmasked)
    row, column = zeros.reshape(1, COUNT), zeros.reshape(COUNT, 1)
    for _ in range(2):
        ring.mul([(zeros, zeros)])
    ring.matmul([(row, row.T)])
    ring.truncate([(zeros, 0), (zeros, 20)])
    bits = ring.bit_decompose(zeros)
    many = ring.stack([zeros] * LANES).reshape(LANES * COUNT)
    ring.less_than(many, range(THRESHOLDS))
    ring.suffix_or(bits)
    ring.bits_to_arithmetic(bits, [0, 40])
    for shift in (0, 20):
        ring.select(many, range(THRESHOLDS), [range(THRESHOLDS)], [], shift)
    ring.truncate_and_multiply([(zeros, 5), (zeros, 20)], [(0, 1)])
    rows, _ = ring.square_rows([column], 20, [column])
    ring.scale_rows(rows, zeros)
    return seen


def noting(open_words: Callable[..., Any], seen: list[Any]) -> Callable[..., Any]:
    """Returns the same opening, of which every result is added to the list."""

    def run(shares: Sequence[Any]) -> list[Any]:
        opened: list[Any] = open_words(shares)
        seen.extend(opened)
        return opened

    return run


def _cancelling(deal: Callable[..., list[Dealt]], unmasked: str) -> Callable[..., list[Dealt]]:
    def zero(value: Any, sharing: Sharing) -> Any:
        return value - value if sharing == "sum" else value ^ value

    def run(wanted: Sequence[tuple[Correlation, Any]]) -> list[Dealt]:
        dealt = deal(wanted)
        return [
            Dealt(zero(d.masks, c.masks_by), zero(d.dependents, c.dependents_by))
            if type(c).__name__ == unmasked
            else d
            for (c, _), d in zip(wanted, dealt, strict=True)
        ]

    return run


def _cancelling_joint(deal: Callable[..., Any], unmasked: str) -> Callable[..., Any]:
    def run(hidden: Any, kind: str, *parameters: Any) -> Any:
        dealt = deal(hidden, kind, *parameters)
        return [words - words for words in dealt] if dealt and kind == unmasked else dealt

    return run


def uniform_p_value(words: Integers) -> float:
    """Returns how likely uniform, independent words are at least as odd, at most.

    Args:
        words: by opening, COUNT each.

    Counted are the ones in each bit of each opening, and of the XOR of every two, where a mask that
    serves twice shows. Each count is binomial if words are uniform and independent; the p-value of
    the oddest times the number of counts bounds the probability that any is as odd.
    """
    rows = len(words)
    octets = np.ascontiguousarray(words).view(np.uint8).reshape(rows, COUNT, 8)
    bits = np.unpackbits(octets, axis=2).transpose(2, 0, 1).astype(np.float32)
    ones = bits.sum(axis=2)
    both = bits @ bits.transpose(0, 2, 1)
    first, second = np.triu_indices(rows, 1)
    different = ones[:, first] + ones[:, second] - 2 * both[:, first, second]
    counts = np.concatenate([ones, different], axis=1).ravel()
    oddest = counts[np.abs(counts - COUNT / 2).argmax()]
    return float(counts.size * count_p_value(int(oddest), COUNT, 0.5))
