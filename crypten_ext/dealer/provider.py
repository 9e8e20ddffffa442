"""CrypTen's tuple provider "DEALER": nobody who holds data knows a tuple."""

from collections.abc import Sequence
from typing import Any

import torch

from crypten_ext.dealer.client import current
from crypten_ext.ring.tuple_kinds import RandomWords, Shape, TruncationPair
from extensions.errors import ArgumentError
from extensions.ring.words import Monomial, Word

from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor
from crypten.mpc.provider.provider import TupleProvider


class DealerProvider(TupleProvider):
    """Tuples of CrypTen's kinds and of ours (`crypten_ext.ring.tuple_kinds.TupleSource`).

    Guarantees:
        Each party's shares are uniform to all others together, the dealer left out; the dealer sees
        shapes, never a value.

    Cost:
        No round among the parties; one word from the dealer to the last party for each element that
        depends on others (a product, a wrap count, a shifted mask).
    """

    NAME = "DEALER"

    def generate_additive_triple(
        self, size0: Shape, size1: Shape, op: str, device: Any = None, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Returns uniform a and b, and c = op(a, b)."""
        options = tuple(sorted(kwargs.items()))
        return _arithmetic(_deal(device, "additive", op, size0, size1, args, options))

    def square(self, size: Shape, device: Any = None) -> tuple[Any, ...]:
        """Returns uniform r, and its square."""
        return _arithmetic(_deal(device, "square", size))

    def generate_binary_triple(
        self, size0: Shape, size1: Shape, device: Any = None
    ) -> tuple[Any, ...]:
        """Returns uniform words a and b, and c = a & b."""
        shares = _deal(device, "binary", size0, size1)
        return tuple(BinarySharedTensor.from_shares(share) for share in shares)

    def wrap_rng(self, size: Shape, device: Any = None) -> tuple[Any, ...]:
        """Returns uniform r, and how often the parties' shares of it wrap around when added."""
        return _arithmetic(_deal(device, "wraps", size))

    def B2A_rng(self, size: Shape, device: Any = None) -> tuple[Any, Any]:
        """Returns random bits, shared additively and bitwise."""
        bits, values = _deal(device, "bits", size)
        (arithmetic,) = _arithmetic([values])
        return arithmetic, BinarySharedTensor.from_shares(bits)

    def random_words(self, shape: Shape, products: Sequence[Monomial]) -> RandomWords:
        """Returns fresh uniform words with the named products of their shifted bits."""
        value, bits, *rest = _deal(None, "random words", shape, products)
        return RandomWords(value, bits, dict(zip(products, rest, strict=True)))

    def truncation_pairs(
        self, shapes: Sequence[Shape], shifts: Sequence[int]
    ) -> list[TruncationPair]:
        """Returns fresh truncation pairs, one for each shape and shift."""
        dealt = _deal(None, "truncation pairs", shapes, shifts)
        masks, dependents = dealt[: len(shifts)], dealt[len(shifts) :]
        parts = zip(masks, dependents[::2], dependents[1::2], strict=True)
        return [TruncationPair(mask, shifted, top) for mask, shifted, top in parts]

    def bit_words(self, shape: Shape, positions: Sequence[int]) -> tuple[Word, torch.Tensor]:
        """Returns uniform words shared bitwise, and additive shares of their bits there."""
        word, bits = _deal(None, "bit words", shape, positions)
        return word, bits

    def word_masks(
        self, shape: Shape, wires: int, products: Sequence[Monomial]
    ) -> tuple[list[Word], dict[Monomial, Word]]:
        """Returns a fresh uniform mask for each wire, and XOR shares of the named products."""
        dealt = _deal(None, "word masks", shape, wires, products)
        return dealt[:wires], dict(zip(products, dealt[wires:], strict=True))


def _deal(device: Any, kind: str, *parameters: Any) -> list[torch.Tensor]:
    if torch.device(device or "cpu").type != "cpu":
        raise ArgumentError("device", str(device), "the CPU", "Call .cpu() first.")
    return current().deal(kind, *parameters)


def _arithmetic(shares: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    return tuple(ArithmeticSharedTensor.from_shares(share, precision=0) for share in shares)
