"""Steps of protocols in which one opening serves several ends: of comparison, truncation, product.

Where z + r is opened, z = P - r with public P; a truncation leaves z' = P' - r', where P' and r'
follow from P and r. So a product of two such values is a sum of public words times shares, and of
dealt products of masks (`extensions.ring.joint`): nothing more is opened for it.
"""

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from extensions.ring.interface import Rows, Selected, Share, Weights
from extensions.ring.joint import tops_meet
from extensions.ring.masked_opening import OFFSET_BITS, MaskedOpening
from extensions.ring.planes import bits_of, unpacked
from extensions.ring.tuples import Dealt
from extensions.ring.words import Word


@dataclass
class Opened:
    """Rows that were opened under masks, until a factor scales them.

    Attributes:
        public: the opened rows of each matrix.
        masks: shares of their masks.
        factor: those of the factor's mask: as it is, truncated, and its top part.
        products: of each matrix's mask with the factor's truncated mask and with its top part.
    """

    public: list[Word]
    masks: list[Share]
    factor: tuple[Share, Share, Share]
    products: list[tuple[Share, Share]]


class Fused(MaskedOpening):
    """`extensions.ring.composed.Composed` in fewer rounds, where somebody deals what it takes.

    A host's public words do what its shares do, and `>>`, `|` and `&` by a Python int; shares are
    multiplied by them, and an operation of one with many broadcasts.

    Guarantees:
        As `MaskedOpening`: every opened word is the sum or XOR of a value and of a mask that
        belongs to this opening alone.
    """

    @abstractmethod
    def deal_joint(
        self, hidden: Sequence[Share | None], kind: str, *parameters: object
    ) -> list[Share] | None:
        """Returns shares of fresh masks, then of what follows; None if nobody deals it.

        Args:
            hidden: for each of the masks, shares of the value that it is to hide, among whose
                holders it is shared; None for one of which there are none yet.
            kind: of `extensions.ring.joint.JOINTS`.
            parameters: of that kind: public shapes, counts, shifts.
        """

    def select(
        self,
        x: Share,
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
        dealt = self.deal_joint([x, None, None, None], "selection", count, kinds, shift)
        if dealt is None:
            return super().select(x, thresholds, slopes, constants, shift)
        lanes, d_words, *masks = dealt[:4]
        planes, *products = dealt[4:7]
        d, *rest = dealt[7:]
        r = lanes.T.reshape(-1)[:count]
        flat = x.reshape(count)
        (c,) = self.open_sum([flat + r])
        later = [Dealt(*pair) for pair in zip(masks, products, strict=True)]
        flags = self.signs_below(c, thresholds, planes, later)
        (opened,) = self.open_xor([flags ^ d_words])
        p = unpacked(bits_of(opened, self.constant), kinds, count)
        turned = p * -2 + 1
        if shift:
            one = self.shift_opened(c + (1 << OFFSET_BITS), shift, *rest[:2])
            public, value = one.public, one.value
            d_mask = rest[2] - rest[3] * one.turn
        else:
            public, value, (d_mask,) = c, flat, rest
        # A flag is p + (1 - 2 p) d, and d times the value is d P less d times its mask.
        bits = self.add_public(d * turned, p)
        times_value = value * p + (d * public - d_mask) * turned
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
        self, items: Sequence[tuple[Share, int]], pairs: Sequence[tuple[int, int]]
    ) -> tuple[list[Share], list[Share]]:
        """Returns truncated items and products of some; one round.

        Cost:
            One word opened for each element. Dealt are two words for each, and three for each
            product's, four if the shifts add up to more than 62.
        """
        values, shifts = [z for z, _ in items], [shift for _, shift in items]
        shapes = [tuple(z.shape) for z in values]
        dealt = self.deal_joint(values, "truncations", shapes, shifts, pairs)
        if dealt is None:
            return super().truncate_and_multiply(items, pairs)
        count = len(items)
        masks, own, products = dealt[:count], dealt[count : 3 * count], iter(dealt[3 * count :])
        opened = self.open_offset([z + r for z, r in zip(values, masks, strict=True)])
        each = [
            self.shift_opened(c, shift, *parts)
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
            mixed = y.value * x.public + x.value * y.public + of_masks
            results.append(self.add_public(mixed, -(x.public * y.public)))
        return [one.value for one in each], results

    def square_rows(
        self, rows: Sequence[Share], shift: int, beside: Sequence[Share] = ()
    ) -> tuple[Rows, list[Share]]:
        """Returns rows to be scaled, and squared norms; one round.

        Cost:
            One word opened for each element. Dealt are a word for each row of a matrix, two for
            each element that is scaled and two for each row's factor.
        """
        matrices = [*rows, *beside]
        widths = [each.shape[1] for each in rows], [each.shape[1] for each in beside]
        count = matrices[0].shape[0]
        dealt = self.deal_joint([None, *matrices], "scaled rows", count, *widths, shift)
        if dealt is None:
            return super().square_rows(rows, shift, beside)
        words = iter(dealt)
        (r, *masks), (low, top), norms = (
            list(itertools.islice(words, size)) for size in (1 + len(matrices), 2, len(matrices))
        )
        products = list(words)
        public = self.open_sum([each - a for each, a in zip(matrices, masks, strict=True)])
        # |e + a|^2 = e (e + 2 a) + |a|^2, with the opened e.
        squares = [
            (self.add_public(a * 2, e) * e).sum(-1) + norm
            for e, a, norm in zip(public, masks, norms, strict=True)
        ]
        opened = Opened(
            public[: len(rows)],
            masks[: len(rows)],
            (r, low, top),
            list(zip(products[::2], products[1::2], strict=True)),
        )
        return Rows(list(rows), shift, opened), squares

    def scale_rows(self, rows: Rows, factor: Share) -> list[Share]:
        """Returns scaled rows; one round, one word opened for each factor."""
        if not isinstance(rows.opened, Opened):
            return super().scale_rows(rows, factor)
        opened, rows.opened = rows.opened, None
        r, low, top = opened.factor
        (c,) = self.open_offset([factor + r])
        one = self.shift_opened(c, rows.shift, low, top)
        public, turn, value = (each.reshape(-1, 1) for each in one)
        # (P - r') (e + a) = e z + P a - r' a, with z = P - r'.
        return [
            value * e + a * public - (of_low - of_top * turn)
            for e, a, (of_low, of_top) in zip(
                opened.public, opened.masks, opened.products, strict=True
            )
        ]
