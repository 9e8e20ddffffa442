"""The circuits of the core on CrypTen's words: torch.int64 tensors, opened by one collective."""

from collections.abc import Sequence

import torch

from crypten_ext.ring import tuples
from crypten_ext.ring.opening import is_leader, open_sum, open_xor
from extensions.ring import circuits
from extensions.ring.words import Monomial, Word


class _Words:
    """An `extensions.ring.circuits.WordHost`: this party's side of it."""

    def leading(self, word: Word) -> Word | None:
        return word if is_leader() else None

    def invert(self, word: Word) -> Word:
        return ~word if is_leader() else word

    def open_xor(self, words: Sequence[Word]) -> list[Word]:
        return open_xor(words)

    def word_masks(
        self, shape: Sequence[int], wires: int, products: Sequence[Monomial]
    ) -> tuple[list[Word], dict[Monomial, Word]]:
        return tuples.word_masks(shape, wires, products)


_WORDS = _Words()


def differences(x: torch.Tensor, constants: list[int]) -> torch.Tensor:
    """Returns XOR shares of the bits of x - t for each public t, on a new leading axis; 3 rounds.

    x + r is opened once for all t (r uniform and dealt with its bits), so that x - t = c - t - r.
    """
    r = tuples.random_words(x.shape, circuits.first_monomials())
    (c,) = open_sum([x + r.value])
    minuends = torch.stack([c - t for t in constants])
    words: torch.Tensor = circuits.subtract_words(_WORDS, minuends, r.bits, r.products)
    return words


def suffix_or(word: torch.Tensor) -> torch.Tensor:
    """Returns XOR shares of the words whose bit i is the OR of bits i..63; 3 rounds."""
    words: torch.Tensor = circuits.suffix_or(_WORDS, word)
    return words
