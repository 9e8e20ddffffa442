"""Squared norms of per-example gradients of layers with positions, and the tests before them.

With the P rows u_p of a record's unfolded input and d_p of its deltas, the gradient is sum_p d_p
(x) (u_p, s), and its squared norm either that of this matrix, or the sum over all p and q of
(d_p . d_q) (u_p . u_q + s^2). `LayerShape.way` says which is fewer words for its sizes.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extensions.network.layers import LayerGradient, LayerShape
from extensions.protocols.dpsgd_plan import MATERIALISED_BITS, StepPlan
from extensions.ring.interface import Ring, Share

Item = tuple[Share, int]


@dataclass(frozen=True)
class _Layer(ABC):
    """One layer with positions.

    Attributes:
        ring: the host.
        gradient: of the layer.
        shape: its public facts.
        bits: of both factors of its squared norm (`StepPlan.norm_bits`).
    """

    ring: Ring
    gradient: LayerGradient
    shape: LayerShape
    bits: tuple[int, int]

    @property
    def deltas(self) -> Share:
        """(rows, positions, out_features)."""
        sizes = self.shape.positions, self.shape.out_features
        return self.gradient.deltas.reshape(-1, *sizes)

    @property
    def inputs(self) -> Share:
        """(rows, positions, in_features)."""
        sizes = self.shape.positions, self.shape.in_features
        return self.gradient.inputs.reshape(-1, *sizes)

    @abstractmethod
    def operands(self) -> list[tuple[Share, Share]]:
        """Returns the factors of matrix products."""

    @abstractmethod
    def items(self, products: Sequence[Share]) -> list[Item]:
        """Returns what of these products is truncated."""

    @abstractmethod
    def pairs(self, start: int) -> list[tuple[int, int]]:
        """Returns which items are multiplied, their places counted from `start`."""

    @abstractmethod
    def square(self, values: Sequence[Share], products: Sequence[Share]) -> Share:
        """Returns the squared norms, given the truncated items and the products of pairs."""

    def turned(self, x: Share) -> Share:
        """Returns each record's matrix transposed; local."""
        rows, height, width = x.shape
        places = np.arange(height * width).reshape(height, width).T
        return self.ring.gather(x.reshape(rows, height * width), places)


class _Ghost(_Layer):
    """By the inner products of all pairs of positions."""

    def operands(self) -> list[tuple[Share, Share]]:
        """Returns those of both matrices of inner products."""
        return [(x, self.turned(x)) for x in (self.deltas, self.inputs)]

    def items(self, products: Sequence[Share]) -> list[Item]:
        """Returns the diagonal of each matrix and, behind it, the upper half without it."""
        count = self.shape.positions
        upper = np.triu_indices(count, 1)
        places = np.concatenate([np.arange(count) * (count + 1), upper[0] * count + upper[1]])
        halves = [
            self.ring.gather(product.reshape(-1, count * count), places) for product in products
        ]
        f = self.ring.frac_bits
        if self.shape.has_bias:
            one = 1 << (2 * (f - self.shape.bias_bits))
            halves[1] = self.ring.add_public(halves[1], one)
        return [(half, 2 * f - bits) for half, bits in zip(halves, self.bits, strict=True)]

    def pairs(self, start: int) -> list[tuple[int, int]]:
        """Returns the places of both items, counted from `start`."""
        return [(start, start + 1)]

    def square(self, values: Sequence[Share], products: Sequence[Share]) -> Share:
        """Returns S + P (trace D + trace U) + 3 P^2."""
        count, (product,) = self.shape.positions, products
        total = product[:, :count].sum(-1) + product[:, count:].sum(-1) * 2
        traces = values[0][:, :count].sum(-1) + values[1][:, :count].sum(-1)
        return self.ring.add_public(total + traces * count, 3 * count * count)


class _Materialised(_Layer):
    """By the gradient itself."""

    def operands(self) -> list[tuple[Share, Share]]:
        """Returns those of the weight's gradient."""
        return [(self.turned(self.deltas), self.inputs)]

    def items(self, products: Sequence[Share]) -> list[Item]:
        """Returns the weight's gradient, and the bias's."""
        f = self.ring.frac_bits
        (weight,) = products
        parts = [weight.reshape(-1, self.shape.out_features * self.shape.in_features)]
        if self.shape.has_bias:
            parts.append(self.deltas.sum(1) * (1 << (f - self.shape.bias_bits)))
        return [(part, 2 * f - self._kept) for part in parts]

    @property
    def _kept(self) -> int:
        """Fractional bits of the gradient, whose square has twice as many."""
        return sum(self.bits) // 2

    def pairs(self, start: int) -> list[tuple[int, int]]:
        """Returns each item beside itself."""
        return [(start + i, start + i) for i in range(1 + self.shape.has_bias)]

    def square(self, values: Sequence[Share], products: Sequence[Share]) -> Share:
        """Returns |h|^2 + N / t, for t = 2^-MATERIALISED_BITS."""
        first, *rest = [product.sum(-1) for product in products]
        total = first + rest[0] if rest else first
        raised = self.ring.add_public(total, self.shape.weights << MATERIALISED_BITS)
        return raised * (1 << (sum(self.bits) - 2 * self._kept))


class Unfolded:
    """The layers with positions in one step.

    Args:
        ring: the host.
        layers: per-example gradients of every layer.
        plan: the public constants.

    Attributes:
        items: what is truncated, and by how much.

    Guarantees:
        `squares` are at least those of the true gradients, divided by 1 + 2^-MATERIALISED_BITS of
        materialised ones (`StepPlan.norm_bound`), for every rounding a host may choose.

        Materialised: each of N entries of h is within a unit of the gradient's g, in units of which
        |g|^2 <= (1 + t) (|h|^2 + N / t).

        Ghost: each entry of both P x P matrices is within a unit, so that the sum S of products of
        rounded entries falls short by at most sum |D_pq| + sum |U_pq| + P^2 of the true ones. There
        sum |U_pq| <= (sum |u_p|)^2 <= P trace U, and the true trace is within P of the rounded one:
        S + P (trace D + trace U) + 3 P^2 is enough.

    Cost:
        A round for the matrices. A record opens P (in + out) words of operands, twice for a ghost,
        and beside that the gradient, or P (P + 1) words.
    """

    def __init__(self, ring: Ring, layers: Sequence[LayerGradient], plan: StepPlan) -> None:
        kinds: dict[str, type[_Layer]] = {"ghost": _Ghost, "materialised": _Materialised}
        each = zip(layers, plan.layers, plan.norm_bits, strict=True)
        self._layers = [
            kinds[shape.way](ring, layer, shape, bits)
            for layer, shape, bits in each
            if shape.way in kinds
        ]
        operands = [layer.operands() for layer in self._layers]
        pairs = [pair for own in operands for pair in own]
        products = iter(ring.matmul(pairs) if pairs else [])
        items = [
            layer.items([next(products) for _ in own])
            for layer, own in zip(self._layers, operands, strict=True)
        ]
        self._counts = [len(own) for own in items]
        self.items = [item for own in items for item in own]

    def pairs(self, start: int) -> list[tuple[int, int]]:
        """Returns which items are multiplied, their places counted from `start`."""
        starts = itertools.accumulate(self._counts, initial=start)
        each = zip(self._layers, starts, strict=False)
        return [pair for layer, first in each for pair in layer.pairs(first)]

    def squares(self, values: Sequence[Share], products: Sequence[Share]) -> list[Share]:
        """Returns squared norms, (rows,), with the fractional bits that the plan's add up to.

        Args:
            values: of `items`, truncated.
            products: of `pairs`.
        """
        found, left, multiplied = [], iter(values), iter(products)
        for layer, count in zip(self._layers, self._counts, strict=True):
            own = [next(left) for _ in range(count)]
            found.append(layer.square(own, [next(multiplied) for _ in layer.pairs(0)]))
        return found


def passed(
    ring: Ring, layers: Sequence[LayerGradient], plan: StepPlan, padding: Share | None
) -> Share:
    """Returns shares of 1 for each record whose gradients passed all guards of the plan, else 0.

    Args:
        ring: the host.
        layers: with what is `below` those that the plan guards.
        plan: that has guards.
        padding: shares of 1 for rows that are padding, and so do not pass; None if none is.

    Guarantees:
        A record that passes has norms within the limits of all guards, whatever a host rounds, and
        so within the bounds of the plan's layers.

    Cost:
        The rounds of squares (`Ring.square_rows`), of one comparison, and of products: the binary
        logarithm of the number of guards, rounded up, with the padding as one more.
    """
    tested = [layers[i].below for i, _ in plan.guards]
    _, squares = ring.square_rows([], 0, tested)
    excess = [
        ring.add_public(square, -guard.threshold(plan.frac_bits))
        for square, (_, guard) in zip(squares, plan.guards, strict=True)
    ]
    (below,) = ring.less_than(ring.stack(excess), [0])
    flags = [below[i] for i in range(len(excess))]
    if padding is not None:
        flags.append(ring.add_public(-padding, 1))
    while len(flags) > 1:
        half = len(flags) // 2
        pairs = list(zip(flags[:half], flags[half : 2 * half], strict=True))
        flags = [*ring.mul(pairs), *flags[2 * half :]]
    return flags[0]
