"""What one backward pass leaves for the optimizer: each layer's inputs and deltas, no gradients."""

from dataclasses import dataclass
from functools import lru_cache

import torch

from crypten_ext.nn.provenance import Pairs, Provenance, shares_of
from crypten_ext.ring.crypten_ring import CrypTenRing
from extensions.errors import GradientError
from extensions.layers.chain import Network
from extensions.layers.linear_layers import LayerGradient, LayerShape, guard_shifts
from extensions.layers.losses import Loss
from extensions.layers.passes import Trace
from extensions.layers.stages.stage import Stage
from extensions.layers.stages.trained import Trained
from extensions.protocols.settings import ScriptTraining

_KEPT = 16
"""Networks, of those that models of a process were applied as."""


@dataclass(frozen=True, kw_only=True)
class BackwardPass:
    """What a private step has to know of one backward pass.

    That is the origin of the model's output, the network which the model was applied as, and each
    layer's gradients, example by example.
    """

    origin: Provenance
    network: Network
    gradients: list[LayerGradient]


class Tape:
    """Records one backward pass of one model and refuses to be read twice."""

    def __init__(self, settings: ScriptTraining) -> None:
        self._settings = settings
        self._recorded: BackwardPass | None = None
        self._used = False

    def go_back(
        self, ring: CrypTenRing, origin: Provenance, deltas: torch.Tensor, loss: Loss
    ) -> None:
        """Keeps the gradients of a sum over examples at the output of every layer.

        They follow the layers that made the output, and nothing else that a script computed.
        `deltas` are shares of the gradient of the loss at the output, (rows, outputs).

        Cost:
            2 rounds for each layer but the first, and those of the stages between.

        Raises:
            ArgumentError: the layers are no chain that ends with a linear one, or their bounds are
                beyond use.
            GradientError: there are some already.
        """
        self._check_free()
        network = _network(tuple(use.stage for use in origin.uses), loss, self._settings.bias_bits)
        shapes = _shapes(network, origin.batch.public.feature_norm, self._settings)
        trace = Trace(
            ring=ring,
            network=network,
            parameters=_pairs(origin),
            kept=[use.kept for use in origin.uses],
            logits=deltas,
        )
        shared = origin.batch.shared
        norms = None if shared is None else shared.squared_norms
        gradients = trace.from_logits(deltas, norms, guard_shifts(shapes, ring.frac_bits))
        self._recorded = BackwardPass(origin=origin, network=network, gradients=gradients)

    def clear(self) -> None:
        """The next backward pass starts afresh."""
        self._recorded, self._used = None, False

    def _check_free(self) -> None:
        if self._used:
            raise GradientError(
                "backward() ran after step() without zero_grad() in between. Call "
                "optimizer.zero_grad() before each backward pass."
            )
        if self._recorded is not None:
            raise GradientError(
                "The model received two gradients before step(): backward() ran twice. Call "
                "optimizer.zero_grad() before each backward pass and step() after it."
            )

    def take(self) -> BackwardPass:
        """Returns the backward pass, once; GradientError if there is none, or it was taken."""
        if self._used:
            raise GradientError(
                "step() was called twice for one backward pass, but gradients may be used only "
                "once. Call zero_grad() and backward() again."
            )
        if self._recorded is None:
            raise GradientError("step() needs a gradient. Call backward() first.")
        recorded, self._recorded, self._used = self._recorded, None, True
        return recorded


@lru_cache(_KEPT)
def _network(stages: tuple[Stage, ...], loss: Loss, bias_bits: int) -> Network:
    """Returns stages as a network; gradients are guarded with convolutions or beyond two layers."""
    trained = [stage for stage in stages if isinstance(stage, Trained)]
    guarded = len(trained) > 2 or any(stage.positions > 1 for stage in trained)
    return Network(stages=stages, bias_bits=bias_bits, loss=loss, guarded=guarded)


@lru_cache(_KEPT)
def _shapes(
    network: Network, feature_norm: float, settings: ScriptTraining
) -> tuple[LayerShape, ...]:
    return network.shapes(
        max_feature_norm=feature_norm,
        max_weight_norm=settings.max_weight_norm,
        max_grad_norm=settings.max_grad_norm,
    )


def _pairs(origin: Provenance) -> Pairs:
    return [pair for use in origin.layers for pair in shares_of(use.stage, use.weight, use.bias)]
