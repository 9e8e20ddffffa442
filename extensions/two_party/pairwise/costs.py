"""What making a tuple takes, by formula: transfers, bytes and rounds, of all parties together."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from extensions.errors import ArgumentError
from extensions.ring.comparison import LATER_MASKS, SUBTRAHENDS
from extensions.ring.fixed_point import RING_BITS
from extensions.ring.joint import tops_meet
from extensions.ring.planes import LANES, quarter
from extensions.ring.words import Monomial
from extensions.rules import one_of
from extensions.two_party.oblivious_transfer.extension import message_bytes
from extensions.two_party.pairwise import matrices
from extensions.two_party.pairwise.bits import factored
from extensions.two_party.pairwise.convolutions import CONVOLUTIONS, as_matrices
from extensions.two_party.pairwise.transfers import WORD_BYTES
from extensions.two_party.pairwise.words import PRODUCT_BYTES, kept_of_masks, kept_of_truncatable

Shape = Sequence[int]


@dataclass(frozen=True)
class Cost:
    """What all parties together do; `+` is one after the other, `|` at once.

    Attributes:
        transfers: oblivious ones, of every two parties.
        bytes: that all parties send, without what their links add.
        rounds: in which they wait for each other; portions of `transfers.MOST` add theirs.
    """

    transfers: int = 0
    bytes: int = 0
    rounds: int = 0

    def __add__(self, other: Cost) -> Cost:
        return self._with(other, self.rounds + other.rounds)

    def __or__(self, other: Cost) -> Cost:
        return self._with(other, max(self.rounds, other.rounds))

    def _with(self, other: Cost, rounds: int) -> Cost:
        return Cost(self.transfers + other.transfers, self.bytes + other.bytes, rounds)


def cost_of(kind: str, parameters: Sequence[Any], parties: int) -> Cost:
    """Returns what `extensions.two_party.pairwise.tuples.made` takes; ArgumentError for no kind."""
    plan = _Plan(parties)
    kinds: dict[str, Callable[..., Cost]] = {
        "additive": plan.additive,
        "layer": plan.layer,
        "standing rows": lambda *_: Cost(),
        "standing product": plan.standing_product,
        "square": lambda size: plan.squares(prod(size)),
        "binary": lambda left, right: plan.ands(prod(np.broadcast_shapes(left, right)), 1),
        "wraps": plan.wraps,
        "bits": lambda size: plan.integers(prod(size), WORD_BYTES * prod(size)),
        "random words": lambda shape, products: plan.masks(prod(shape), 1, products),
        "random planes": lambda shape, products: plan.masks(prod(shape), LANES, products),
        "truncation pairs": plan.pairs,
        "bit words": plan.bit_words,
        "word masks": lambda shape, _, products: plan.monomials(prod(shape), products),
        "selection": plan.selection,
        "truncations": plan.truncations,
        "scaled rows": plan.scaled_rows,
    }
    one_of(kinds).check("kind", kind)
    return kinds[kind](*parameters)


class _Plan:
    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._ordered = parties * (parties - 1)
        self._pairs = self._ordered // 2

    def _products(self, pairs: int, bits: int, payload: int, rounds: int = 2) -> Cost:
        if not bits:
            return Cost(rounds=rounds)
        return Cost(pairs * bits, pairs * (message_bytes(bits) + payload), rounds)

    def ands(self, words: int, columns: int) -> Cost:
        return self._products(self._ordered, RING_BITS * words, WORD_BYTES * columns * words)

    def monomials(self, words: int, products: tuple[Monomial, ...]) -> Cost:
        each = (self.ands(words, len(step.others)) for step in factored(products))
        return _after(each)

    def integers(self, bits: int, kept: int) -> Cost:
        return self._products(self._pairs, bits, kept, 2 * (self._parties - 1))

    def whole(self, words: int) -> Cost:
        """Words that are shared by XOR become shared additively."""
        return self.integers(RING_BITS * words, int(kept_of_masks().sum()) * words)

    def truncatable(self, words: int, shift: int) -> Cost:
        return self.integers(RING_BITS * words, int(kept_of_truncatable(shift).sum()) * words)

    def times_bits(self, bits: int, columns: int) -> Cost:
        payload = WORD_BYTES * columns * bits
        return self._products(self._ordered, bits, payload, 2 * self._parties)

    def times_words(self, words: int, columns: int) -> Cost:
        return self._products(self._ordered, RING_BITS * words, PRODUCT_BYTES * columns * words)

    def squares(self, words: int) -> Cost:
        return self._products(self._pairs, RING_BITS * words, PRODUCT_BYTES * words)

    def norms(self, rows: int, width: int) -> Cost:
        transfers, size = matrices.norms_cost(rows, width)
        if transfers:
            return self.squares(rows * width)
        return Cost(0, self._pairs * size, 2)

    def masks(self, words: int, count: int, products: tuple[Monomial, ...]) -> Cost:
        return self.whole(count * words) | self.monomials(words, products)

    def pairs(self, shapes: Sequence[Shape], shifts: Sequence[int]) -> Cost:
        each = zip(shapes, shifts, strict=True)
        return _beside(self.truncatable(prod(shape), shift) for shape, shift in each)

    def bit_words(self, shape: Shape, positions: Sequence[int]) -> Cost:
        bits = prod(shape) * len(positions)
        return self.integers(bits, WORD_BYTES * bits)

    def wraps(self, size: Shape) -> Cost:
        words = prod(size)
        adder = self.ands(words, 1) + _after([self.ands(words, 2)] * 6)
        signs = words * self._parties
        return _after([adder] * (self._parties - 1)) + self.integers(signs, WORD_BYTES * signs)

    def selection(self, count: int, kinds: int, shift: int) -> Cost:
        size = quarter(count)
        first = quarter(kinds * size)
        words = LANES * size
        later = zip((first, quarter(first)), LATER_MASKS, strict=True)
        masks = _beside(
            [
                self.truncatable(words, shift) if shift else self.whole(words),
                self.monomials(size, SUBTRAHENDS.products),
                *(self.monomials(wide, masks.products) for wide, masks in later),
            ]
        )
        return masks + self.times_bits(kinds * count, 3 if shift else 2)

    def truncations(
        self, shapes: Sequence[Shape], shifts: Sequence[int], pairs: Sequence[Sequence[int]]
    ) -> Cost:
        def product(i: int, j: int) -> Cost:
            words = prod(shapes[i])
            by_top = self.times_bits(words, 2 if tops_meet(shifts[i], shifts[j]) else 1)
            return self.times_words(words, 1) | by_top | self.times_bits(words, 1)

        return self.pairs(shapes, shifts) + _beside(product(*pair) for pair in pairs)

    def scaled_rows(self, rows: int, columns: Shape, beside: Shape, shift: int) -> Cost:
        norms = _beside(self.norms(rows, width) for width in (*columns, *beside))
        masks = self.truncatable(rows, shift) | norms
        if not columns:
            return masks
        wide = sum(columns)
        return masks + (self.times_words(rows, wide) | self.times_bits(rows, wide))

    def matmul(self, rows: int, inner: int, columns: int) -> Cost:
        words = rows * inner
        by_transfers = self.times_words(words, columns)
        each = matrices.cost(rows, inner, columns)
        if self._ordered * each == by_transfers.bytes:
            return by_transfers
        return Cost(0, self._ordered * each, 2)

    def additive(self, op: str, left: Shape, right: Shape, _: Any, options: Any) -> Cost:
        if op == "mul":
            return self.times_words(prod(np.broadcast_shapes(left, right)), 1)
        if op in CONVOLUTIONS:
            groups, each = as_matrices(op, left, right, **dict(options))
            return _beside([self.matmul(*each)] * groups)
        if op != "matmul":
            raise ArgumentError("op", op, one_of(("mul", "matmul", *CONVOLUTIONS)))
        rows, inner = ((1,) * (2 - len(left)) + tuple(left))[-2:]
        columns = right[-1] if len(right) > 1 else 1
        batch = np.broadcast_shapes(tuple(left[:-2]), tuple(right[:-2]))
        return _beside([self.matmul(rows, inner, columns)] * prod(batch))

    def layer(self, rows: Sequence[int], inputs: int, outputs: int) -> Cost:
        if len(rows) == 1:
            (total,) = rows
            return self.matmul(total, inputs, outputs) | self.matmul(outputs, total, inputs)
        each = (self.standing_product(0, rows, inputs, outputs, is_left) for is_left in (1, 0))
        return _beside(each)

    def standing_product(
        self, _: int, rows: Sequence[int], inputs: int, outputs: int, is_left: int
    ) -> Cost:
        shapes = [(own, inputs) if is_left else (inputs, own) for own in rows]
        return Cost(0, matrices.crossing_cost(shapes, outputs), 2)


def _after(costs: Iterable[Cost]) -> Cost:
    return functools.reduce(operator.add, costs, Cost())


def _beside(costs: Iterable[Cost]) -> Cost:
    return functools.reduce(operator.or_, costs, Cost())
