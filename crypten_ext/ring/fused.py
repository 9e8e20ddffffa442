"""Steps of protocols in which one opening serves several ends: of comparison, truncation, product.

Where z + r is opened, z = P - r with public P; a truncation leaves z' = P' - r', where P' and r'
follow from P and r. So a product of two such values is a sum of public words times shares, and of
dealt products of masks (`crypten_ext.ring.joint`): nothing more is opened for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from crypten_ext.ring import tuples
from crypten_ext.ring.factors import Operand, share_of
from crypten_ext.ring.joint import JointSource, bits_of, tops_meet
from extensions.ring.interface import Rows, Selected, Weights
from extensions.ring.masked_opening import OFFSET_BITS, TOP, MaskedOpening
from extensions.ring.planes import unpacked
from extensions.ring.words import shift_right

Tensor = torch.Tensor


@dataclass
class Truncated:
    """A value x / 2^shift as a public word less a mask: see `MaskedOpening.truncate`.

    Attributes:
        public: the public word.
        turn: what the mask's top bit counts in it, public: 2^(63 - shift), added or taken.
        value: this party's share of the value.
    """

    public: Tensor
    turn: Tensor
    value: Tensor


@dataclass
class Opened:
    """Rows that were opened under masks, until a factor scales them.

    Attributes:
        public: the opened rows of each matrix.
        masks: this party's shares of their masks.
        factor: its shares of the factor's mask: as it is, truncated, and its top part.
        products: of each matrix's mask with the factor's truncated mask and with its top part.
    """

    public: list[Tensor]
    masks: list[Tensor]
    factor: tuple[Tensor, Tensor, Tensor]
    products: list[tuple[Tensor, Tensor]]


class Fused(MaskedOpening):
    """`extensions.ring.composed.Composed` in fewer rounds, where somebody deals what it takes.

    Guarantees:
        As `MaskedOpening`: every opened word is the sum or XOR of a value and of a mask that
        belongs to this opening alone.
    """

    def select(
        self,
        x: Tensor,
        thresholds: Sequence[int],
        slopes: Weights,
        constants: Weights,
        shift: int = 0,
    ) -> Selected:
        """Returns sums and products of flags; 4 rounds.

        Cost:
            An element: the words that a comparison opens. Dealt are those of a comparison but for
            the flags' bits, and for each flag two words, three with a shift.
        """
        kinds, count = len(thresholds), math.prod(x.shape)
        dealt = self.deal_joint("selection", count, kinds, shift)
        if dealt is None:
            return super().select(x, thresholds, slopes, constants, shift)
        lanes, d_words, planes, d, *rest = dealt
        r = lanes.T.reshape(-1)[:count]
        flat = x.reshape(count)
        (c,) = self.open_sum([flat + r])
        flags = self.signs_below(c, thresholds, planes)
        (opened,) = self.open_xor([flags ^ d_words])
        p = unpacked(bits_of(opened), kinds, count)
        turned = 1 - 2 * p
        if shift:
            one = self._truncated(c + (1 << OFFSET_BITS), shift, *rest[:2])
            public, value = one.public, one.value
            d_mask = rest[2] - rest[3] * one.turn
        else:
            public, value, (d_mask,) = c, flat, rest
        # A flag is p + (1 - 2 p) d, and d times the value is d P less d times its mask.
        bits = self.add_public(turned * d, p)
        times_value = p * value + turned * (d * public - d_mask)
        sums = self.linear(bits, [*slopes, *constants])
        products = self.linear(times_value, slopes)
        shaped = [each.reshape(x.shape) for each in (*sums, *products)]
        return Selected(
            value.reshape(x.shape),
            shaped[: len(slopes)],
            shaped[len(sums) :],
            shaped[len(slopes) : len(sums)],
        )

    def truncate_and_multiply(
        self, items: Sequence[tuple[Tensor, int]], pairs: Sequence[tuple[int, int]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Returns truncated items and products of some; one round.

        Cost:
            One word opened for each element. Dealt are two words for each, and three for each
            product's, four if the shifts add up to more than 62.
        """
        count, shifts = len(items), [shift for _, shift in items]
        shapes = [tuple(z.shape) for z, _ in items]
        dealt = self.deal_joint("truncations", shapes, shifts, pairs)
        if dealt is None:
            return super().truncate_and_multiply(items, pairs)
        masks, own, products = dealt[:count], dealt[count : 3 * count], iter(dealt[3 * count :])
        opened = self.open_offset([z + r for (z, _), r in zip(items, masks, strict=True)])
        each = [
            self._truncated(c, shift, *parts)
            for c, shift, parts in zip(
                opened, shifts, zip(own[::2], own[1::2], strict=True), strict=True
            )
        ]
        results = []
        for i, j in pairs:
            x, y = each[i], each[j]
            of_masks = next(products)
            of_masks = of_masks - next(products) * y.turn
            of_masks = of_masks - next(products) * x.turn
            if tops_meet(shifts[i], shifts[j]):
                of_masks = of_masks + next(products) * x.turn * y.turn
            # (P - r) (Q - s) = P y + Q x - P Q + r s, with x = P - r and y = Q - s.
            mixed = x.public * y.value + y.public * x.value + of_masks
            results.append(self.add_public(mixed, -(x.public * y.public)))
        return [one.value for one in each], results

    def square_rows(
        self, rows: Sequence[Tensor], shift: int, beside: Sequence[Operand] = ()
    ) -> tuple[Rows, list[Tensor]]:
        """Returns rows to be scaled, and squared norms; one round.

        Cost:
            One word opened for each element. Dealt are a word for each row of a matrix, two for
            each element that is scaled and two for each row's factor.
        """
        matrices = [*rows, *map(share_of, beside)]
        widths = [each.shape[1] for each in rows], [each.shape[1] for each in beside]
        dealt = self.deal_joint("scaled rows", len(matrices[0]), *widths, shift)
        if dealt is None:
            return super().square_rows(rows, shift, beside)
        words = iter(dealt)
        (r, *masks), (low, top), norms = (
            list(itertools.islice(words, count)) for count in (1 + len(matrices), 2, len(matrices))
        )
        products = list(words)
        public = self.open_sum([each - a for each, a in zip(matrices, masks, strict=True)])
        # |e + a|^2 = |e|^2 + 2 <e, a> + |a|^2, with the opened e.
        squares = [
            self.add_public((2 * e * a).sum(-1) + norm, (e * e).sum(-1))
            for e, a, norm in zip(public, masks, norms, strict=True)
        ]
        opened = Opened(
            public[: len(rows)],
            masks[: len(rows)],
            (r, low, top),
            list(zip(products[::2], products[1::2], strict=True)),
        )
        return Rows(list(rows), shift, opened), squares

    def scale_rows(self, rows: Rows, factor: Tensor) -> list[Tensor]:
        """Returns scaled rows; one round, one word opened for each factor."""
        if not isinstance(rows.opened, Opened):
            return super().scale_rows(rows, factor)
        opened, rows.opened = rows.opened, None
        r, low, top = opened.factor
        (c,) = self.open_offset([factor + r])
        one = self._truncated(c, rows.shift, low, top)
        public, value = one.public[:, None], one.value[:, None]
        turn = one.turn[:, None]
        # (P - r') (e + a) = e z + P a - r' a, with z = P - r'.
        return [
            e * value + public * a - (of_low - of_top * turn)
            for e, a, (of_low, of_top) in zip(
                opened.public, opened.masks, opened.products, strict=True
            )
        ]

    def deal_joint(self, kind: str, *parameters: object) -> list[Tensor] | None:
        """Returns what `JointSource.deal_joint` does; None if nobody deals it."""
        source = tuples.source()
        return source.deal_joint(kind, *parameters) if isinstance(source, JointSource) else None

    def _truncated(self, c: Tensor, shift: int, low: Tensor, top: Tensor) -> Truncated:
        """Returns z / 2^shift of the opened c = z + 2^62 + r, and of r's own truncation."""
        public = shift_right(c, shift) - (1 << (OFFSET_BITS - shift))
        turn = ((c >> TOP) | 1) << (TOP - shift)
        return Truncated(public, turn, self.shift_opened(c, shift, low, top))
