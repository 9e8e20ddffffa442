"""Our tuples from the trusted first party: party 0 draws and computes them, without a message.

The others expand their shares from the keys that they share with neighbours, and party 0, which
knows all plaintexts, gives up its zero share for them.
"""

from collections.abc import Sequence
from typing import Any

import torch

from crypten_ext.ring.factors import LayerMasks
from crypten_ext.ring.joint import add_to, followed, layer
from crypten_ext.ring.opening import is_leader
from crypten_ext.ring.triples import HostsTriples
from extensions.ring.joint import Joint, correlated, joint_of
from extensions.ring.tuples import Correlation, Dealt, Sharing

from crypten.common import rng
from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor


class FirstParty(HostsTriples):
    """An `extensions.ring.tuples.TupleSource`: party 0 knows every tuple."""

    def deal(self, wanted: Sequence[tuple[Correlation, torch.Tensor]]) -> list[Dealt]:
        """Returns fresh correlations, each to hide one value."""
        correlations, values = zip(*wanted, strict=True)
        shares = _deal(correlated(correlations, [value.shape for value in values]))
        count = len(wanted)
        return [Dealt(*pair) for pair in zip(shares[:count], shares[count:], strict=True)]

    owners_know = False

    def deal_layer(self, rows: Sequence[int], inputs: int, outputs: int) -> LayerMasks:
        """Returns fresh masks for the two products of a layer."""
        return LayerMasks(*_deal(layer(sum(rows), inputs, outputs)))

    def deal_joint(self, kind: str, *parameters: object) -> list[torch.Tensor]:
        """Returns this party's shares of fresh words of `extensions.ring.joint`."""
        return _deal(joint_of(kind, *parameters))


def _deal(joint: Joint) -> list[torch.Tensor]:
    """Returns this party's shares of fresh masks, then of what follows."""
    parts = [*joint.masks, *joint.dependents]
    shares = [_zeros(part.sharing, part.shape) for part in parts]
    if not is_leader():
        return shares
    drawn = [rng.generate_random_ring_element(part.shape) for part in joint.masks]
    for part, share, value in zip(parts, shares, [*drawn, *followed(joint, drawn)], strict=True):
        add_to(part.sharing, share, value)
    return shares


def _zeros(sharing: Sharing, shape: tuple[int, ...]) -> torch.Tensor:
    primitive: Any = ArithmeticSharedTensor if sharing == "sum" else BinarySharedTensor
    share: torch.Tensor = primitive.PRZS(shape).share
    return share
