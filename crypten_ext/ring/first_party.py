"""Our tuples from the trusted first party: party 0 draws and computes them, without a message.

The others expand their shares from the keys that they share with neighbours, and party 0, which
knows all plaintexts, gives up its zero share for them.
"""

from collections.abc import Sequence

import torch

from crypten_ext.ring.opening import is_leader
from crypten_ext.ring.tuple_kinds import RandomWords, Shape, TruncationPair
from extensions.ring.words import Monomial, Word, products_of, shift_word

from crypten.common import rng
from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor


class FirstParty:
    """A `crypten_ext.ring.tuple_kinds.TupleSource`: party 0 knows every tuple."""

    def random_words(self, shape: Shape, products: Sequence[Monomial]) -> RandomWords:
        """Returns fresh uniform words with the named products of their shifted bits."""
        r = _draw(shape)
        value = _deal_sum(shape, r)
        plain = None if r is None else torch.stack([r, *products_of(products, [r])])
        dealt = _deal_xor((1 + len(products), *shape), plain)
        return RandomWords(value, dealt[0], dict(zip(products, dealt[1:], strict=True)))

    def truncation_pairs(
        self, shapes: Sequence[Shape], shifts: Sequence[int]
    ) -> list[TruncationPair]:
        """Returns fresh truncation pairs, one for each shape and shift."""
        pairs = []
        for shape, shift in zip(shapes, shifts, strict=True):
            r = _draw(shape)
            plain = None
            if r is not None:
                plain = torch.stack([r, (r & (2**63 - 1)) >> shift, shift_word(r, -63)])
            pairs.append(TruncationPair(*_deal_sum((3, *shape), plain)))
        return pairs

    def bit_words(self, shape: Shape, positions: Sequence[int]) -> tuple[Word, torch.Tensor]:
        """Returns uniform words shared bitwise, and additive shares of their bits there."""
        r = _draw(shape)
        word = _deal_xor(shape, r)
        plain = None if r is None else torch.stack([(r >> i) & 1 for i in positions])
        return word, _deal_sum((len(positions), *shape), plain)

    def word_masks(
        self, shape: Shape, wires: int, products: Sequence[Monomial]
    ) -> tuple[list[Word], dict[Monomial, Word]]:
        """Returns a fresh uniform mask for each wire, and XOR shares of the named products."""
        r = _draw((wires, *shape))
        plain = None
        if r is not None:
            plain = torch.stack([*r, *products_of(products, list(r))])
        dealt = _deal_xor((wires + len(products), *shape), plain)
        return list(dealt[:wires]), dict(zip(products, dealt[wires:], strict=True))


def _draw(shape: Shape) -> torch.Tensor | None:
    if not is_leader():
        return None
    drawn: torch.Tensor = rng.generate_random_ring_element(tuple(shape))
    return drawn


def _deal_sum(shape: Shape, plain: torch.Tensor | None) -> torch.Tensor:
    share: torch.Tensor = ArithmeticSharedTensor.PRZS(tuple(shape)).share
    return share if plain is None else share + plain


def _deal_xor(shape: Shape, plain: torch.Tensor | None) -> Word:
    share: Word = BinarySharedTensor.PRZS(tuple(shape)).share
    return share if plain is None else share ^ plain
