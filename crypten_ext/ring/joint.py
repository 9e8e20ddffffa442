"""Words of several shapes that are dealt together to CrypTen's parties."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch

from crypten_ext.ring.matmul import matmul
from extensions.ring.fixed_point import Integers
from extensions.ring.joint import Joint, Part, correlated, joint_of
from extensions.ring.tuples import Correlation, Dealt

Tensors = list[torch.Tensor]


@runtime_checkable
class JointSource(Protocol):
    """Who deals them."""

    def deal_joint(self, kind: str, *parameters: object) -> Tensors:
        """Returns this party's shares of fresh masks, then of what follows.

        `kind` is one of `extensions.ring.joint.JOINTS`; its parameters are public.
        """


class JointDealing:
    """Who deals correlations too as words that go together."""

    @abstractmethod
    def _deal(self, joint: Joint) -> Tensors: ...

    def deal(self, wanted: Sequence[tuple[Correlation, torch.Tensor]]) -> list[Dealt]:
        """Returns fresh correlations, each to hide one value."""
        correlations, values = zip(*wanted, strict=True)
        shares = self._deal(correlated(correlations, [value.shape for value in values]))
        count = len(wanted)
        return [Dealt(*pair) for pair in zip(shares[:count], shares[count:], strict=True)]

    def deal_joint(self, kind: str, *parameters: object) -> Tensors:
        """Returns this party's shares of fresh words of `extensions.ring.joint`."""
        return self._deal(joint_of(kind, *parameters))


class _Tensors:
    """`extensions.ring.tuples.Dealer` of tensors."""

    def stack(self, words: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack(list(words))

    def constant(self, integers: Integers) -> torch.Tensor:
        return torch.from_numpy(integers)


def followed(joint: Joint, masks: Tensors) -> Tensors:
    """Returns what follows from masks, in the clear."""
    return joint.follow(masks, _Tensors())


def add_to(sharing: str, share: torch.Tensor, value: torch.Tensor) -> None:
    """Adds to what is shared, by changing one share in place; "sum" modulo 2^64, else bitwise."""
    if sharing == "sum":
        share += value
    else:
        share ^= value


def layer(rows: int, inputs: int, outputs: int) -> Joint:
    """Returns the masks of `crypten_ext.ring.factors.LayerMasks`, in their order."""
    x, w, d = (rows, inputs), (inputs, outputs), (outputs, rows)
    return Joint(
        (Part(x), Part(w), Part(d)),
        (Part((rows, outputs)), Part((outputs, inputs))),
        lambda masks, _: [matmul(masks[0], masks[1]), matmul(masks[2], masks[0])],
    )
