"""Squared norms of per-example gradients of layers with positions, and the tests before them.

With the P rows u_p of a record's unfolded input and d_p of its deltas, the gradient is sum_p d_p
(x) (u_p, s), and its squared norm either that of this matrix, or the sum over all p and q of
(d_p . d_q) (u_p . u_q + s^2). `LayerShape.way` says which is fewer words for its sizes.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from extensions.layers.linear_layers import LayerGradient, LayerShape
from extensions.protocols.dpsgd_plan import MATERIALISED_BITS, StepPlan
from extensions.ring.interface import Ring, Share

Asking = Generator[Any, Any, Share]
"""How one layer's squared norms are found: it asks for the products of pairs of matrices, then for
items that are truncated and the products of pairs of these, and returns the squared norms."""


def _ghost(ring: Ring, gradient: LayerGradient, shape: LayerShape, bits: tuple[int, int]) -> Asking:
    """By the inner products of all pairs of positions: S + P (trace D + trace U) + 3 P^2."""
    count, f = shape.positions, ring.frac_bits
    both = [
        each.reshape(-1, count, width)
        for each, width in (
            (gradient.deltas, shape.out_features),
            (gradient.inputs, shape.in_features),
        )
    ]
    products = yield [(x, _turned(ring, x)) for x in both]
    # The diagonal of each matrix and, behind it, the upper half without it.
    upper = np.triu_indices(count, 1)
    places = np.concatenate([np.arange(count) * (count + 1), upper[0] * count + upper[1]])
    halves = [ring.gather(product.reshape(-1, count * count), places) for product in products]
    if shape.has_bias:
        halves[1] = ring.add_public(halves[1], 1 << (2 * (f - shape.bias_bits)))
    items = [(half, 2 * f - own) for half, own in zip(halves, bits, strict=True)]
    values, (product,) = yield items, [(0, 1)]
    total = product[:, :count].sum(-1) + product[:, count:].sum(-1) * 2
    traces = values[0][:, :count].sum(-1) + values[1][:, :count].sum(-1)
    return ring.add_public(total + traces * count, 3 * count * count)


def _materialised(
    ring: Ring, gradient: LayerGradient, shape: LayerShape, bits: tuple[int, int]
) -> Asking:
    """By the gradient itself, of the weight and of the bias: |h|^2 + N / t."""
    f, kept = ring.frac_bits, sum(bits) // 2  # the square has twice as many bits as the gradient
    deltas = gradient.deltas.reshape(-1, shape.positions, shape.out_features)
    inputs = gradient.inputs.reshape(-1, shape.positions, shape.in_features)
    (weight,) = yield [(_turned(ring, deltas), inputs)]
    parts = [weight.reshape(-1, shape.out_features * shape.in_features)]
    if shape.has_bias:
        parts.append(deltas.sum(1) * (1 << (f - shape.bias_bits)))
    _, products = yield (
        [(part, 2 * f - kept) for part in parts],
        [(i, i) for i in range(len(parts))],
    )
    first, *rest = [product.sum(-1) for product in products]
    total = first + rest[0] if rest else first
    raised = ring.add_public(total, shape.weights << MATERIALISED_BITS)
    return raised * (1 << (sum(bits) - 2 * kept))


NORM_METHODS: dict[str, Callable[..., Asking]] = {"ghost": _ghost, "materialised": _materialised}


def _turned(ring: Ring, x: Share) -> Share:
    """Returns each record's matrix transposed; local."""
    rows, height, width = x.shape
    places = np.arange(height * width).reshape(height, width).T
    return ring.gather(x.reshape(rows, height * width), places)


class Unfolded:
    """The layers with positions in one step.

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
        self._layers = [
            NORM_METHODS[shape.way](ring, layer, shape, bits)
            for layer, shape, bits in zip(layers, plan.layers, plan.norm_bits, strict=True)
            if shape.way in NORM_METHODS
        ]
        operands = [next(layer) for layer in self._layers]
        pairs = [pair for own in operands for pair in own]
        products = iter(ring.matmul(pairs) if pairs else [])
        self._asked = [
            layer.send([next(products) for _ in own])
            for layer, own in zip(self._layers, operands, strict=True)
        ]
        self.items = [item for items, _ in self._asked for item in items]

    def pairs(self, start: int) -> list[tuple[int, int]]:
        """Returns which items are multiplied, their places counted from `start`."""
        found = []
        for items, pairs in self._asked:
            found += [(start + i, start + j) for i, j in pairs]
            start += len(items)
        return found

    def squares(self, values: Sequence[Share], products: Sequence[Share]) -> list[Share]:
        """Returns squared norms, (rows,), with the fractional bits that the plan's add up to.

        Args:
            values: of `items`, truncated.
            products: of `pairs`.
        """
        found, left, multiplied = [], iter(values), iter(products)
        for layer, (items, pairs) in zip(self._layers, self._asked, strict=True):
            answer = [next(left) for _ in items], [next(multiplied) for _ in pairs]
            try:
                layer.send(answer)
            except StopIteration as end:
                found.append(end.value)
        return found


def passed(
    ring: Ring, layers: Sequence[LayerGradient], plan: StepPlan, padding: Share | None
) -> Share:
    """Returns shares of 1 for each record whose gradients passed all guards of the plan, else 0.

    Args:
        layers: with what is `below` those that the plan guards.
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
