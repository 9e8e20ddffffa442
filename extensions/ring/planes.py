"""Four words as four planes: the bits that a circuit joins lie at one place of different words.

A circuit that joins neighbouring bits has a use for a quarter of the results that one word gives.
Of four words it has a use for all: plane i takes from each of them the blocks i, i + 4, i + 8, ...,
and has those of word j as its own blocks j, j + 4, j + 8, ...
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from extensions.ring.fixed_point import RING_BITS, Integers, wrap
from extensions.ring.words import Word

LANES = 4
WIDTHS = (1, 4, 16)
"""Planes of blocks of these widths, one after the other, leave a bit of each of 64 words."""

SIGNS = wrap(0xF << 60)
"""The sign bits of four words, in the last of their planes of single bits."""


def planes(words: Sequence[Word], width: int) -> list[Word]:
    """Returns four words whose block 4 m + j is block 4 m + i of word j, for each i; local.

    Args:
        width: of a block, in bits.

    The planes of the planes are the words.
    """
    a, b, c, d = words
    (a, c), (b, d) = _exchange(a, c, 2 * width), _exchange(b, d, 2 * width)
    return [*_exchange(a, b, width), *_exchange(c, d, width)]


def _exchange(low: Word, high: Word, width: int) -> tuple[Word, Word]:
    """The odd blocks of the first word change places with the even blocks of the second."""
    moved = ((low >> width) ^ high) & _even_blocks(width)
    return low ^ (moved << width), high ^ moved


@functools.cache
def _even_blocks(width: int) -> int:
    return wrap(sum(((1 << width) - 1) << start for start in range(0, RING_BITS, 2 * width)))


def without_signs(words: Sequence[Word]) -> list[Word]:
    """Returns four planes of single bits whose sign bits are cleared; local."""
    *others, last = words
    return [*others, last & ~SIGNS]


def quarter(count: int) -> int:
    """Returns how many words a lane has, of so many in all."""
    return -(-count // LANES)


def lanes(word: Word, concatenate: Callable[[Sequence[Word]], Word]) -> list[Word]:
    """Returns every fourth element of a word, from each of the first four on.

    Args:
        concatenate: joins words along their first axis; where 4 does not divide the number of
            elements, the first one stands for those that are missing.
    """
    flat = padded(word, concatenate)
    return list(flat.reshape(flat.shape[0] // LANES, LANES).T)


def padded(word: Word, concatenate: Callable[[Sequence[Word]], Word]) -> Word:
    """Returns the elements of a word on one axis, as many as lanes take; see `lanes`."""
    count = math.prod(word.shape)
    flat = word.reshape(count)
    missing = LANES * quarter(count) - count
    return concatenate([flat, *[flat[:1]] * missing]) if missing else flat


def bits_of(words: Word, constant: Callable[[Integers], Any]) -> Word:
    """Returns all bits of words of one axis, from the lowest, (words, 64); local.

    Args:
        constant: returns public integers as such words are shifted by them.
    """
    return (words.reshape(-1, 1) >> constant(np.arange(RING_BITS))) & 1


def unpacked(bits: Any, kinds: int, count: int) -> Any:
    """Returns the bits of words that are left of three levels of planes, (kinds, count).

    Args:
        bits: each word's 64 along a last axis, (words, 64).
        kinds: number of words that each of the first lane's elements became.
    """
    size = quarter(count)
    second = quarter(kinds * size)
    third = quarter(second)
    bits = bits.reshape(LANES * third, LANES**2)[:second]
    bits = bits.reshape(LANES * second, LANES)[: kinds * size]
    return bits.reshape(kinds, LANES * size)[:, :count]
