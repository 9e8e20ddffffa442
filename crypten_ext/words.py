"""64-bit words in torch: logical shifts, and sums of products of masked, shifted words."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

Word = torch.Tensor


@dataclass(frozen=True, order=True)
class Factor:
    """One operand of a product: wire `wire`, shifted left by `shift` (right if negative).

    With opened word E and mask A of that wire the operand is E ^ A, or, if `gated`, E & A.
    """

    wire: int
    shift: int
    gated: bool = False


Term = tuple[Factor, ...]
Mask = tuple[int, int]
Monomial = tuple[Mask, ...]


def shift_word(word: Word, shift: int, *, ones: bool = False) -> Word:
    """Returns the word shifted left, or logically right for a negative shift.

    With `ones`, a right shift brings in ones instead of zeros.
    """
    if shift >= 0:
        return word << shift
    kept = (1 << (64 + shift)) - 1
    moved = (word >> -shift) & kept
    return moved | ~kept if ones else moved


def product_of(monomial: Monomial, words: Sequence[Word]) -> Word:
    """Returns the AND of the shifted words that a monomial names."""
    return functools.reduce(
        torch.bitwise_and, [shift_word(words[wire], shift) for wire, shift in monomial]
    )


def monomials(terms: Iterable[Term]) -> list[Monomial]:
    """Returns the products of masks, of two masks or more, that the terms expand into."""
    found: set[Monomial] = set()
    for term in terms:
        subsets: set[Monomial] = {()}
        for factor in term:
            mask = (factor.wire, factor.shift)
            with_mask = {tuple(sorted({*subset, mask})) for subset in subsets}
            subsets = with_mask if factor.gated else subsets | with_mask
        found |= subsets
    return sorted((m for m in found if len(m) > 1), key=lambda m: (len(m), m))


def sum_of_products(
    terms: Sequence[Term],
    opened: Sequence[Word],
    masks: Mapping[Monomial, Word],
    *,
    leader: bool,
    ones: bool = False,
) -> Word:
    """Returns this party's XOR share of the XOR of all terms; local.

    Args:
        terms: products of factors.
        opened: for each wire the public word E = value ^ mask.
        masks: XOR shares of every single shifted mask and of every monomial of the terms.
        leader: whether this party adds the public part.
        ones: whether right shifts bring in ones.
    """
    total: Word | None = None
    for term in terms:
        parts: dict[Monomial, Word | None] = {(): None}
        for factor in term:
            public = shift_word(opened[factor.wire], factor.shift, ones=ones)
            mask = (factor.wire, factor.shift)
            grown: dict[Monomial, Word | None] = {}
            for subset, coefficient in parts.items():
                gated = public if coefficient is None else coefficient & public
                joined = tuple(sorted({*subset, mask}))
                if factor.gated:
                    grown[joined] = gated
                else:
                    grown[subset] = gated
                    grown[joined] = coefficient
            parts = grown
        for subset, coefficient in parts.items():
            if subset == () and not leader:
                continue
            factors = [w for w in (coefficient, masks.get(subset)) if w is not None]
            piece = functools.reduce(torch.bitwise_and, factors)
            total = piece if total is None else total ^ piece
    assert total is not None
    return total
