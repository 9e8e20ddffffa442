"""Our tuples from the trusted first party: party 0 draws and computes them, without a message.

The others expand their shares from the keys that they share with neighbours, and party 0, which
knows all plaintexts, gives up its zero share for them.
"""

from collections.abc import Sequence
from typing import Any

import torch

from crypten_ext.ring.factors import LayerMasks
from crypten_ext.ring.joint import Part, joint_of
from crypten_ext.ring.opening import is_leader
from extensions.ring.tuples import Correlation, Dealt, Sharing

from crypten.common import rng
from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor


class FirstParty:
    """An `extensions.ring.tuples.TupleSource`: party 0 knows every tuple."""

    def deal(self, wanted: Sequence[tuple[Correlation, torch.Tensor]]) -> list[Dealt]:
        """Returns fresh correlations, each to hide one value."""
        return [_deal(correlation, value.shape) for correlation, value in wanted]

    owners_know = False

    def deal_layer(self, rows: Sequence[int], inputs: int, outputs: int) -> LayerMasks:
        """Returns fresh masks for the two products of a layer."""
        count = sum(rows)
        shapes = [(count, inputs), (inputs, outputs), (outputs, count)]
        x, w, d = (_zeros("sum", shape) for shape in shapes)
        xw, dx = _zeros("sum", (count, outputs)), _zeros("sum", (outputs, inputs))
        if is_leader():
            of_x, of_w, of_d = (rng.generate_random_ring_element(shape) for shape in shapes)
            x, w, d, xw, dx = x + of_x, w + of_w, d + of_d, xw + of_x @ of_w, dx + of_d @ of_x
        return LayerMasks(x, w, d, xw, dx)

    def deal_joint(self, kind: str, *parameters: object) -> list[torch.Tensor]:
        """Returns this party's shares of fresh words of `crypten_ext.ring.joint`."""
        dealt = joint_of(kind, *parameters)
        masks = [_zeros(part.sharing, part.shape) for part in dealt.masks]
        followed = [_zeros(part.sharing, part.shape) for part in dealt.dependents]
        if is_leader():
            drawn = [rng.generate_random_ring_element(mask.shape) for mask in masks]
            masks = _joined(dealt.masks, masks, drawn)
            followed = _joined(dealt.dependents, followed, dealt.follow(drawn))
        return [*masks, *followed]


def _joined(
    parts: Sequence[Part], shares: Sequence[torch.Tensor], values: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    each = zip(parts, shares, values, strict=True)
    return [_join(part.sharing, share, value) for part, share, value in each]


def _deal(correlation: Correlation, shape: torch.Size) -> Dealt:
    masks = _zeros(correlation.masks_by, (correlation.masks, *shape))
    dependents = _zeros(correlation.dependents_by, (correlation.dependents, *shape))
    if is_leader():
        drawn = rng.generate_random_ring_element(masks.shape)
        masks = _join(correlation.masks_by, masks, drawn)
        if words := correlation.follow(list(drawn)):
            dependents = _join(correlation.dependents_by, dependents, torch.stack(words))
    return Dealt(masks, dependents)


def _zeros(sharing: Sharing, shape: tuple[int, ...]) -> torch.Tensor:
    primitive: Any = ArithmeticSharedTensor if sharing == "sum" else BinarySharedTensor
    share: torch.Tensor = primitive.PRZS(shape).share
    return share


def _join(sharing: Sharing, share: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return share + value if sharing == "sum" else share ^ value
