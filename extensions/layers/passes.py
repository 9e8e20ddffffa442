"""Both ways through a chain of stages, over any ring."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from extensions.layers.chain import Network
from extensions.layers.linear_layers import LayerGradient
from extensions.layers.losses import residual
from extensions.layers.stages.branches import Branching
from extensions.layers.stages.trained import Linear, Parameters, Trained
from extensions.ring.interface import Ring, Share

__all__ = ["Parameters", "Trace", "forward"]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A forward pass, with what each stage needs to go back (`kept`)."""

    ring: Ring
    network: Network
    parameters: Parameters
    kept: list[Any]
    logits: Share

    def backward(
        self, targets: Share, squared_norms: Share | None, guards: Sequence[int | None] = ()
    ) -> list[LayerGradient]:
        """Returns per-example gradients of the sum of the examples' losses, layer by layer.

        Args:
            targets: shares of (rows, outputs), f fractional bits.
            squared_norms: shares of the rows' squared norms, 2f fractional bits, where their owners
                supplied them; None to compute them. They serve a linear layer of the rows.
            guards: for each layer what `StepPlan.guard_shifts` says; nothing without guards.

        Cost:
            2 rounds for each layer behind the lowest that is trained, and those of the other stages
            behind it.
        """
        deltas = residual(self.ring, self.network.loss, self.logits, targets)
        return self.from_logits(deltas, squared_norms, guards)

    def from_logits(
        self, deltas: Share, squared_norms: Share | None, guards: Sequence[int | None] = ()
    ) -> list[LayerGradient]:
        """Returns per-example gradients, layer by layer, given those at the logits."""
        ring, network = self.ring, self.network
        stages = list(zip(network.stages, self.kept, _own(network, self.parameters), strict=True))
        found: list[LayerGradient] = []
        shifts = list(guards) or [None] * network.layers
        lowest = network.lowest
        waiting: list[Share] = []
        for i, (stage, kept, parameters) in reversed(list(enumerate(stages[lowest:], lowest))):
            if isinstance(stage, Branching):
                deltas = stage.back(deltas, waiting)
                continue
            if not isinstance(stage, Trained):
                deltas = stage.backward(ring, deltas, kept)
                continue
            own = [
                replace(each, bias_bits=network.bias_bits)
                for each in stage.gradients(ring, deltas, kept)
            ]
            found = [*own, *found]
            if i == lowest:
                break
            shift = shifts[network.layers - len(found)]
            wanted = [ring.frac_bits] if shift is None else [ring.frac_bits, ring.frac_bits + shift]
            product = stage.product(ring, deltas, parameters)
            deltas, *below = ring.truncate([(product, bits) for bits in wanted])
            if below:
                found[0] = replace(found[0], below=below[0])
        if isinstance(network.stages[0], Linear) and network.stages[0].has_weight:
            found[0] = replace(found[0], squared_norm=squared_norms)
        frozen = [s.nothing() for s in network.stages[:lowest] if isinstance(s, Trained)]
        return [*itertools.chain.from_iterable(frozen), *found]


def forward(ring: Ring, network: Network, parameters: Parameters, x: Share) -> Trace:
    """Returns the pass of the rows x, (rows, features), through the chain.

    It takes 2 rounds a layer, and those of activations and pooling between them.
    """
    kept: list[Any] = []
    waiting: list[Share] = []
    for stage, own in zip(network.stages, _own(network, parameters), strict=True):
        needed = None
        if isinstance(stage, Branching):
            x = stage.ahead(x, waiting)
        elif isinstance(stage, Trained):
            x, needed = stage.apply(ring, x, own)
        else:
            x, needed = stage.forward(ring, x)
        kept.append(needed)
    return Trace(ring=ring, network=network, parameters=parameters, kept=kept, logits=x)


def _own(network: Network, parameters: Parameters) -> Iterator[Parameters]:
    """Yields the parameters of each stage."""
    left = iter(parameters)
    for stage in network.stages:
        count = stage.layers if isinstance(stage, Trained) else 0
        yield list(itertools.islice(left, count))
