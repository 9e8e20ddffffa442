"""Our tuples from the trusted first party: party 0 draws and computes them, without a message.

The others expand their shares from the keys that they share with neighbours. Party 0, which knows
all plaintexts, gives up its zero share for them.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch

from crypten_ext.ring.factors import LayerMasks
from crypten_ext.ring.joint import add_to, followed, layer
from crypten_ext.ring.opening import is_leader
from crypten_ext.ring.triples import HostsTriples
from extensions.errors import InsecureWarning
from extensions.ring.joint import Joint, Part, correlated, joint_of
from extensions.ring.tuples import Correlation, Dealt, Sharing

from crypten import communicator
from crypten.common import rng
from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor
from crypten.mpc.provider.tfp_provider import TrustedFirstParty

CHOSEN = "INSECURE_TFP"
"""``crypten.cfg.mpc.provider`` for whoever wants party 0 to deal, and so to know every secret."""


class ChosenFirstParty(TrustedFirstParty):
    """CrypTen's default provider, asked for by name."""


def warn_of_first_party(provider: Any) -> None:
    """Warns, once a process, if CrypTen's default lets party 0 see the others' secrets."""
    if type(provider) is TrustedFirstParty and communicator.get().get_world_size() > 1:
        _warn()


@cache
def _warn() -> None:
    warnings.warn(
        "Party 0 can see every secret of the other parties, because CrypTen's default provider "
        'lets it deal all triples. Set crypten.cfg.mpc.provider = "DEALER" or "PARTIES", '
        f'or "{CHOSEN}" if party 0 may see all.',
        InsecureWarning,
        stacklevel=5,
    )


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
    parts = [*joint.masks, *joint.dependents]
    shares = _zeros(parts)
    if not is_leader():
        return shares
    sizes = [math.prod(part.shape) for part in joint.masks]
    words = rng.generate_random_ring_element((sum(sizes),)).split(sizes)
    drawn = [own.reshape(part.shape) for own, part in zip(words, joint.masks, strict=True)]
    for part, share, value in zip(parts, shares, [*drawn, *followed(joint, drawn)], strict=True):
        add_to(part.sharing, share, value)
    return shares


def _zeros(parts: Sequence[Part]) -> list[torch.Tensor]:
    """Returns shares of zeros, drawn at once for all parts of a kind."""
    drawn: dict[Sharing, Iterator[torch.Tensor]] = {}
    for sharing, primitive in _PRIMITIVES.items():
        sizes = [math.prod(part.shape) for part in parts if part.sharing == sharing]
        if sizes:
            drawn[sharing] = iter(primitive.PRZS((sum(sizes),)).share.split(sizes))
    return [next(drawn[part.sharing]).reshape(part.shape) for part in parts]


_PRIMITIVES: dict[Sharing, Any] = {"sum": ArithmeticSharedTensor, "xor": BinarySharedTensor}
