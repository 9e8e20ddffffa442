"""What stands for dealt words in a computation without values."""

from collections.abc import Sequence
from math import prod

import torch

from crypten_ext.ring.factors import LayerMasks
from crypten_ext.ring.foreseen import WORD, Counts
from crypten_ext.ring.joint import layer
from extensions.ring.joint import Joint, joint_of
from extensions.ring.tuples import Correlation, Dealt


class ForeseenTuples:
    """What stands for whoever deals words together (`crypten_ext.ring.tuples.Source`)."""

    def __init__(self, mode: Counts, owners_know: bool, rank: int) -> None:
        self._mode, self.owners_know, self._rank = mode, owners_know, rank

    def deal(self, wanted: Sequence[tuple[Correlation, torch.Tensor]]) -> list[Dealt]:
        """Returns words of these shapes."""
        return [
            Dealt(*self._words([(c.masks, *value.shape), (c.dependents, *value.shape)]))
            for c, value in wanted
        ]

    def deal_joint(self, kind: str, *parameters: object) -> list[torch.Tensor]:
        """Likewise."""
        return self._joint(joint_of(kind, *parameters))

    def deal_layer(self, rows: Sequence[int], inputs: int, outputs: int) -> LayerMasks:
        """Likewise; of the mask of x only this party's own rows, if owners know theirs."""
        x, *others = self._joint(layer(sum(rows), inputs, outputs))
        own = x[: rows[self._rank]] if self.owners_know and len(rows) > 1 else x
        return LayerMasks(own, *others)

    def deal_triple(self, op: str, x: Sequence[int], y: Sequence[int]) -> list[torch.Tensor]:
        """Likewise."""
        product = getattr(torch, op)(*(torch.empty(tuple(s), dtype=torch.int64) for s in (x, y)))
        return self._words([tuple(x), tuple(y), tuple(product.shape)])

    def _joint(self, joint: Joint) -> list[torch.Tensor]:
        return self._words([part.shape for part in (*joint.masks, *joint.dependents)])

    def _words(self, shapes: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
        self._mode.dealt += WORD * sum(map(prod, shapes))
        return [torch.empty(shape, dtype=torch.int64) for shape in shapes]
