"""Correlated randomness for our protocols, from whatever provider CrypTen is configured with.

The dealer (`crypten_ext.dealer`) deals our tuples itself. CrypTen's default provider, the trusted
first party, is party 0, which draws and computes them. Any other provider is asked for random
bits and binary triples, from which the same tuples are built with some rounds of preprocessing.
"""

from collections.abc import Sequence
from math import prod
from typing import Protocol, runtime_checkable

import torch

from crypten_ext.ring.factors import LayerMasks, LayerSource
from crypten_ext.ring.forecast import WORD, Counts, active
from crypten_ext.ring.hosts_tuples import FirstParty, GenericTuples, warn_of_first_party
from crypten_ext.ring.joint import JointDealing, layer
from crypten_ext.ring.standing import StandingSource
from extensions.errors import ArgumentError
from extensions.ring.joint import Joint
from extensions.ring.tuples import TupleSource
from extensions.rules import one_of

import crypten
from crypten import communicator


@runtime_checkable
class Source(TupleSource, Protocol):
    """Who deals tuples of our protocols, and those of products."""

    def deal_triple(self, op: str, x: Sequence[int], y: Sequence[int]) -> list[torch.Tensor]:
        """Returns this party's shares of uniform a and b of these shapes, and of op(a, b)."""


@runtime_checkable
class NoiseDealer(Protocol):
    """Who deals noise that no party knows."""

    def deal_noise(self, scale: float, shapes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Returns this party's shares of discrete Gaussians of that standard deviation."""


class ForecastTuples(JointDealing):
    """What stands for whoever deals tuples in a computation without values."""

    def __init__(self, mode: Counts, provider: object, rank: int) -> None:
        deals = provider if isinstance(provider, LayerSource) else FirstParty
        self._mode, self.owners_know, self._rank = mode, deals.owners_know, rank
        self.rows_stay = isinstance(provider, StandingSource) and provider.rows_stay

    def deal_layer(self, rows: Sequence[int], inputs: int, outputs: int) -> LayerMasks:
        """Returns words of these shapes; of the mask of x only own rows, if owners know theirs."""
        x, *others = self._deal(layer(sum(rows), inputs, outputs))
        own = x[: rows[self._rank]] if self.owners_know and len(rows) > 1 else x
        return LayerMasks(own, *others)

    def stand(self, rows: Sequence[int], own: torch.Tensor) -> tuple[int, torch.Tensor | None]:
        """Returns no number, and words of the block's shape if it is masked."""
        return 0, None if self.rows_stay else torch.empty_like(own)

    def deal_standing(
        self, number: int, rows: Sequence[int], inputs: int, outputs: int, *, is_left: bool
    ) -> list[torch.Tensor]:
        """Returns words of the shapes of a mask and of its product with standing rows."""
        left = (inputs, outputs), (sum(rows), outputs)
        return self._words(left if is_left else ((outputs, sum(rows)), (outputs, inputs)))

    def deal_triple(self, op: str, x: Sequence[int], y: Sequence[int]) -> list[torch.Tensor]:
        """Returns words of these shapes, and of the product's."""
        product = getattr(torch, op)(*(torch.empty(tuple(s), dtype=torch.int64) for s in (x, y)))
        return self._words([tuple(x), tuple(y), tuple(product.shape)])

    def _deal(self, joint: Joint) -> list[torch.Tensor]:
        return self._words([part.shape for part in (*joint.masks, *joint.dependents)])

    def _words(self, shapes: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
        self._mode.dealt += WORD * sum(map(prod, shapes))
        return [torch.empty(shape, dtype=torch.int64) for shape in shapes]


def source() -> Source:
    """Returns who deals our tuples now, or what stands for them where tensors have no values.

    Raises ArgumentError if its rounds cannot be foreseen. Warns as `warn_of_first_party`.
    """
    mode = active()
    if mode is not None:
        return _foreseen(mode)
    provider = crypten.mpc.get_default_provider()
    if isinstance(provider, Source):
        return provider
    if provider.NAME != "TFP":
        return GenericTuples()
    warn_of_first_party(provider)
    return FirstParty()


def _foreseen(mode: Counts) -> ForecastTuples:
    provider = crypten.mpc.get_default_provider()
    ours = isinstance(provider, Source)
    if not ours and provider.NAME != "TFP":
        rule = one_of(("DEALER", "PARTIES", "TFP"))
        advice = "Other providers' tuples take rounds in each step."
        raise ArgumentError("crypten.cfg.mpc.provider", provider.NAME, rule, advice)
    return ForecastTuples(mode, provider, communicator.get().get_rank())
