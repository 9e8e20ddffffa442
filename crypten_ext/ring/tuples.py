"""Correlated randomness for our protocols, from whatever provider CrypTen is configured with.

The dealer (`crypten_ext.dealer`) deals our tuples itself. CrypTen's default provider, the trusted
first party, is party 0, which draws and computes them. Any other provider is asked for random
bits and binary triples, from which the same tuples are built with some rounds of preprocessing.
"""

from collections.abc import Sequence

import torch

from crypten_ext.ring import first_party, generic_tuples
from crypten_ext.ring.tuple_kinds import RandomWords, Shape, TruncationPair, TupleSource
from extensions.ring.words import Monomial, Word

import crypten

__all__ = [
    "RandomWords",
    "TruncationPair",
    "bit_words",
    "random_words",
    "truncation_pairs",
    "word_masks",
]

_FIRST_PARTY = first_party.FirstParty()
_GENERIC = generic_tuples.GenericTuples()


def random_words(shape: Shape, products: Sequence[Monomial]) -> RandomWords:
    """Returns fresh uniform words with the named products of their shifted bits."""
    return _source().random_words(shape, products)


def truncation_pairs(shapes: Sequence[Shape], shifts: Sequence[int]) -> list[TruncationPair]:
    """Returns fresh truncation pairs, one for each shape and shift."""
    return _source().truncation_pairs(shapes, shifts)


def bit_words(shape: Shape, positions: Sequence[int]) -> tuple[Word, torch.Tensor]:
    """Returns uniform words shared bitwise, and additive shares of their bits at `positions`."""
    return _source().bit_words(shape, positions)


def word_masks(
    shape: Shape, wires: int, products: Sequence[Monomial]
) -> tuple[list[Word], dict[Monomial, Word]]:
    """Returns a fresh uniform mask for each wire, and XOR shares of the named products of them."""
    return _source().word_masks(shape, wires, products)


def _source() -> TupleSource:
    provider = crypten.mpc.get_default_provider()
    if isinstance(provider, TupleSource):
        return provider
    return _FIRST_PARTY if provider.NAME == "TFP" else _GENERIC
