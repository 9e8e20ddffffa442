"""CrypTen's ring of two parties, where the first one has the weights in the clear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from crypten_ext.pairwise.maker import peers
from crypten_ext.pairwise.rounds import run
from crypten_ext.ring.crypten_ring import CrypTenRing
from crypten_ext.ring.factors import Factor, Operand, share_of
from extensions.protocols.pencil.step import weight_bits
from extensions.ring.fixed_point import Integers
from extensions.two_party import Making, online, products, together

from crypten import communicator


@dataclass(frozen=True)
class Weight:
    """A matrix of the model's owner; the data owner knows only its shape, and has no `words`."""

    shape: tuple[int, int]
    words: Integers | None

    @property
    def T(self) -> Weight:
        """The transposed matrix."""
        return Weight(self.shape[::-1], None if self.words is None else self.words.T)


class Inputs(Factor):
    """Rows at a layer's input; if `whole`, the data owner has them and the other's share is 0."""

    def __init__(self, share: torch.Tensor, *, whole: bool = False) -> None:
        super().__init__(share)
        self.whole = whole

    def reshape(self, *shape: int) -> Inputs:
        """Returns them in another shape."""
        return Inputs(self.share.reshape(*shape), whole=self.whole)


class PencilRing(CrypTenRing):
    """As `CrypTenRing`; products with a `Weight` are Algorithm 1, with `Inputs` Algorithm 2.

    Truncations and products by bits are of the shares themselves, since both parties are there.

    Raises MissingExtraError if `seal-python` is not installed.
    """

    def __init__(self, frac_bits: int) -> None:
        super().__init__(frac_bits)
        self._group = communicator.get().main_group
        self._end: products.ProductParty = self.run(products.meet(self.rank))
        self._peers = peers()

    def run(self, making: Making[Any]) -> Any:
        """Returns what both parties make, over the connection that they have."""
        return run(making, self._group)

    def factor(self, x: Operand) -> Inputs:
        return x if isinstance(x, Inputs) else Inputs(share_of(x))

    def unfold(self, x: Operand, places: Integers) -> Inputs:
        rows = self.gather(x, places).reshape(-1, places.shape[1])
        return Inputs(rows, whole=isinstance(x, Inputs) and x.whole)

    def truncate(self, items: Sequence[tuple[torch.Tensor, Any]]) -> list[torch.Tensor]:
        """Returns what every ring does, by `two_party.online.truncated`; two rounds."""
        return self._at_once(
            [online.truncated(self._peers, z.numpy(), shift) for z, shift in items]
        )

    def mul_flags(self, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
        """Returns what every ring does, by `two_party.online.times_flags`; two rounds."""
        return self._at_once(
            [online.times_flags(self._peers, x.numpy(), b.numpy()) for x, b in pairs]
        )

    def _at_once(self, makings: Sequence[Making[Integers]]) -> list[torch.Tensor]:
        return [torch.from_numpy(share) for share in self.run(together(makings))]

    def matmul(self, pairs: Sequence[tuple[Any, Any]]) -> list[torch.Tensor]:
        makings = [self._making(x, y) for x, y in pairs]
        made = iter(self.run(together([one for one in makings if one is not None])))
        others = [pair for pair, one in zip(pairs, makings, strict=True) if one is None]
        shares = [(share_of(x), share_of(y)) for x, y in others]
        beside = iter(super().matmul(shares) if shares else [])
        return [
            next(beside) if one is None else torch.from_numpy(np.array(next(made)))
            for one in makings
        ]

    def _making(self, x: Any, y: Any) -> Making[Any] | None:
        whole = any(isinstance(one, Inputs) and one.whole for one in (x, y))
        if isinstance(y, Weight):
            own, columns = share_of(x).numpy(), y.shape[1]
            return products.weighed(
                self._end, own, y.words, columns, bits=weight_bits(self.frac_bits), whole=whole
            )
        if isinstance(y, Inputs) and x.ndim == 2:
            return products.multiplied(self._end, x.numpy(), y.share.numpy(), whole=whole)
        if isinstance(y, Inputs) and whole:
            pairs = zip(x.numpy(), y.share.numpy(), strict=True)
            return together([products.multiplied(self._end, *pair, whole=True) for pair in pairs])
        return None
