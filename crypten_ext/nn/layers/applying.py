"""A module of a script as stages of its network: applied to rows, and recorded for a step.

A row holds one record as PyTorch lays it out: the channels of images are first.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from crypten_ext.nn.layers.autograd import FUNCTIONS, is_recorded
from crypten_ext.nn.provenance import (
    LayerUse,
    Provenance,
    StageUse,
    Version,
    features_of,
    mark,
    rejection,
    shares_of,
)
from crypten_ext.nn.tape import Tape
from crypten_ext.ring.crypten_ring import CrypTenRing, as_tensor, bits_of, check_same_bits, ring_of
from crypten_ext.ring.factors import Factor, Operand
from extensions.errors import GradientError, InsecureError
from extensions.layers.activations import PiecewiseLinear
from extensions.layers.stages.stage import Activation, Stage
from extensions.layers.stages.trained import Linear, Trained
from extensions.protocols.host import Batch

import crypten
from crypten.cryptensor import CrypTensor
from crypten.gradients import FUNCTION_REGISTRY
from crypten.mpc import MPCTensor

Stages = Sequence[Stage]
Shape = Sequence[int]


class Recording(crypten.nn.Module):
    """A layer with weights; its optimizer gives it a tape, and its name in the model."""

    tape: Tape | None = None
    name = ""


def is_training(layer: Any) -> bool:
    """Whether an optimizer of ours is to make a step of what the layer returns.

    A frozen layer (requires_grad=False) has a part in it too, but not one of a model that is set to
    predict, by `eval()` or `crypten.no_grad()`.
    """
    return layer.tape is not None and CrypTensor.AUTOGRAD_ENABLED and layer.training


def needs_host(*tensors: Any) -> bool:
    """Whether CrypTen's own differentiation, which knows no stages, has to go through."""
    return CrypTensor.AUTOGRAD_ENABLED and any(t is not None and t.requires_grad for t in tensors)


def apply_trained(
    layer: Any, x: MPCTensor, weight: Any, bias: Any, stages: Stages, shape: Shape
) -> MPCTensor:
    """Returns what a layer in private training makes of x, (rows, *shape).

    Its optimizer gave the layer a tape and a name. The first stage is the layer, the others only
    move its values.

    Raises GradientError as `_checked_input`.
    """
    ring = ring_of(x)
    origin = _checked_input(layer, x, weight)
    first, *others = stages
    trained = cast(Trained, first)
    versions = tuple(Version.of(part) for part in (weight, bias) if part is not None)
    given = _rows(ring, x, origin, trained)
    value, kept = trained.apply(ring, given, shares_of(trained, weight, bias))
    origin = origin.after(LayerUse(trained, kept, x, origin, weight, bias, layer.tape, versions))
    for stage in others:
        value, kept = stage.forward(ring, value)
        origin = origin.after(StageUse(stage, kept))
    source = next(
        (part for part in (weight, bias, x) if part is not None and part.requires_grad), x
    )
    return mark(source.recorded(value.reshape(-1, *shape)), origin)


def apply_untrained(
    x: MPCTensor, weight: Any, bias: Any, stages: Stages, shape: Shape
) -> MPCTensor:
    """Returns what a layer makes of x where nothing is trained, (rows, *shape)."""
    ring = ring_of(x)
    first, *others = stages
    trained = cast(Trained, first)
    rows = x.share.reshape(x.size(0), -1)
    value, _ = trained.apply(ring, rows, shares_of(trained, weight, bias))
    for stage in others:
        value, _ = stage.forward(ring, value)
    return as_tensor(ring, value.reshape(-1, *shape))


def apply_stages(
    x: MPCTensor, stages: Stages, shape: Shape, host: Callable[[], MPCTensor]
) -> MPCTensor:
    """Returns what stages without weights make of x, (rows, *shape).

    `host` computes it by CrypTen's own differentiation.

    Raises GradientError if x was made of what a layer in private training returned, by something
    else than a layer.
    """
    check_enabled()
    ring = ring_of(x)
    origin = features_of(x) if CrypTensor.AUTOGRAD_ENABLED else None
    if origin is None and CrypTensor.AUTOGRAD_ENABLED and is_recorded(x):
        raise rejection("The input of a layer", x, "the output of a layer of the model")
    if origin is None and needs_host(x):
        return host()
    value = x.share.reshape(x.size(0), -1)
    for stage in stages:
        value, kept = stage.forward(ring, value)
        origin = None if origin is None else origin.after(StageUse(stage, kept))
    value = value.reshape(-1, *shape)
    return as_tensor(ring, value) if origin is None else mark(x.recorded(value), origin)


def apply_activation(x: Any, function: PiecewiseLinear) -> MPCTensor:
    """Returns function(x), of x's shape."""
    check_enabled()
    ring_of(x)
    shape = tuple(x.size())[1:]
    stage = Activation(function, x.share[:1].numel())
    return apply_stages(x, [stage], shape, lambda: cast(MPCTensor, x.piecewise_linear(function)))


def check_precision(x: Any, weight: Any, bias: Any) -> None:
    """Raises ArgumentError unless x, weight and bias have equally many fractional bits."""
    bits = bits_of(x)
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            check_same_bits(name, value, bits)


def check_enabled() -> None:
    """Raises InsecureError unless `crypten_ext.enable` is in force."""
    if any(FUNCTION_REGISTRY.get(name) is not cls for name, cls in FUNCTIONS.items()):
        raise InsecureError("crypten_ext must be enabled: call crypten_ext.enable() first.")


def _rows(ring: CrypTenRing, x: MPCTensor, origin: Provenance, stage: Trained) -> Operand:
    """Returns the rows of a layer's input; of a linear one as a factor of its products.

    That is the owners' where there is one. A further pass over the same rows opens them anew.
    """
    rows: torch.Tensor = x.share.reshape(x.size(0), -1)
    shared: Batch | None = origin.batch.shared
    if not isinstance(stage, Linear) or shared is None or origin.uses or shared.x.is_used:
        return rows
    return cast(Factor, shared.x)


def _checked_input(layer: Any, x: MPCTensor, weight: Any) -> Provenance:
    """Returns where the input of a layer in private training comes from.

    Raises GradientError if it comes from no batch, or by other layers than the model's, each once.
    """
    origin = features_of(x, read=False)
    if origin is None or any(use.tape is not layer.tape for use in origin.layers):
        raise rejection(
            f"The input of layer {layer.name!r}",
            x,
            "the features of a batch, or the output of another trained layer of the model",
        )
    if any(use.weight is weight for use in origin.layers):
        raise GradientError(
            f"Layer {layer.name!r} is used twice, because it is applied to its own output. Use a "
            "separate layer for each place in the model."
        )
    return origin
