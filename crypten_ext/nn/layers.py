"""Layers whose gradients a private step can clip example by example.

A model is built from them with `crypten.nn.Sequential`, or by `crypten.nn.from_pytorch`; in both
cases our optimizers adopt CrypTen's own modules (`crypten_ext.nn.adoption`).
"""

from typing import Any, cast

from crypten_ext.nn.autograd import FUNCTIONS, is_recorded
from crypten_ext.nn.provenance import (
    ActivationUse,
    LinearUse,
    Provenance,
    Version,
    features_of,
    mark,
    refusal,
)
from crypten_ext.nn.tape import Tape
from crypten_ext.ring.crypten_ring import CrypTenRing, ring_of
from crypten_ext.ring.factors import Factor
from extensions.errors import ArgumentError, GradientError, InsecureError
from extensions.network import activations
from extensions.network.layers import linear

import crypten
from crypten.cryptensor import CrypTensor
from crypten.gradients import FUNCTION_REGISTRY
from crypten.mpc import MPCTensor


class Linear(crypten.nn.Linear):
    """x @ weight.T + bias with exact truncation; trained privately once an optimizer adopts it.

    Args and parameters are those of `crypten.nn.Linear`: weight (out_features, in_features) and
    bias (out_features,). Inputs are (rows, in_features).
    """

    tape: Tape | None = None
    name = ""

    def forward(self, x: MPCTensor) -> MPCTensor:
        return _apply_linear(self, x, self.weight, getattr(self, "bias", None))


class Gemm(crypten.nn.Gemm):
    """The Linear of a converted model: without state, its inputs are (x, weight, bias)."""

    tape: Tape | None = None
    name = ""

    def forward(self, x: list[MPCTensor]) -> MPCTensor:
        return _apply_linear(self, x[0], x[1], x[2])


class BiasFree(crypten.nn.MatMul):
    """The Linear without bias of a converted model: its inputs are (x, weight)."""

    tape: Tape | None = None
    name = ""

    def forward(self, x: list[MPCTensor]) -> MPCTensor:
        return _apply_linear(self, x[0], x[1], None)


class ReLU(crypten.nn.ReLU):
    """min(max(x, 0), max_value); the cap bounds what rounding can add to a clipped gradient.

    Args:
        max_value: in (0, 64].

    Cost:
        4 rounds forward, 1 backward.
    """

    max_value = 8.0

    def __init__(self, max_value: float = 8.0) -> None:
        super().__init__()
        self.max_value = activations.relu(max_value).bound

    def forward(self, x: MPCTensor) -> MPCTensor:
        return _apply_activation(x, activations.relu(self.max_value))


class Sigmoid(crypten.nn.Sigmoid):
    """A five-piece sigmoid, within 0.011 of 1 / (1 + exp(-x)).

    Cost:
        5 rounds forward, 2 backward (CrypTen's own: 58 with three parties).
    """

    def forward(self, x: MPCTensor) -> MPCTensor:
        return _apply_activation(x, activations.sigmoid())


class Flatten(crypten.nn.Flatten):
    """Each record as one vector; what is known of the batch stays known."""

    def forward(self, x: MPCTensor) -> MPCTensor:
        result = super().forward(x)
        origin = features_of(x)
        return result if origin is None or self.axis != 1 else mark(result, origin)


def _apply_linear(layer: Any, x: Any, weight: Any, bias: Any) -> MPCTensor:
    _check_enabled()
    ring = ring_of(x)
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and ring_of(value).frac_bits != ring.frac_bits:
            raise ArgumentError(
                f"{name}.encoder",
                f"{ring_of(value).frac_bits} bits",
                f"{ring.frac_bits} bits",
                "Encrypt model and data under the same crypten.cfg.encoder.precision_bits.",
            )
    if x.dim() != 2 or x.size(1) != weight.size(1):
        raise ArgumentError(
            "x",
            tuple(x.size()),
            f"(rows, {weight.size(1)})",
            "Flatten records before sharing.",
        )
    if layer.tape is None or not (CrypTensor.AUTOGRAD_ENABLED and weight.requires_grad):
        return cast(MPCTensor, x.private_linear(weight, bias))
    origin = _checked_input(layer, x, weight)
    factor = _factor(ring, x, origin)
    share = linear(ring, factor, weight.share, None if bias is None else bias.share)
    versions = tuple(Version.of(part) for part in (weight, bias) if part is not None)
    use = LinearUse(x, origin, weight, bias, factor, layer.tape, versions)
    return mark(weight.recorded(share), origin.after(use))


def _factor(ring: CrypTenRing, x: MPCTensor, origin: Provenance) -> Factor:
    """Returns a layer's input as a factor of its products: that of the owners where there is one.

    A further pass over the same rows opens them anew.
    """
    shared = origin.batch.shared
    if shared is None or origin.uses or shared.features.is_used:
        return ring.factor(x.share)
    return shared.features


def _checked_input(layer: Any, x: MPCTensor, weight: Any) -> Provenance:
    """Returns where the input of a layer in private training comes from.

    Raises:
        GradientError: from no batch, or by other layers than the model's, each once.
    """
    origin = features_of(x)
    if origin is None or any(use.tape is not layer.tape for use in origin.layers):
        raise refusal(
            f"The input of layer {layer.name!r}",
            x,
            "the features of a batch or what another trained layer of the model made of them",
        )
    if any(use.weight is weight for use in origin.layers):
        raise GradientError(
            f"Layer {layer.name!r} is applied to its own output: the layer is used twice, which "
            "is not supported. Give each place in the model a layer of its own."
        )
    return origin


def _apply_activation(x: Any, function: activations.PiecewiseLinear) -> MPCTensor:
    _check_enabled()
    ring = ring_of(x)
    origin = features_of(x) if CrypTensor.AUTOGRAD_ENABLED else None
    if origin is None:
        if CrypTensor.AUTOGRAD_ENABLED and is_recorded(x):
            raise refusal("The input of an activation", x, "what a layer of the model returned")
        return cast(MPCTensor, x.piecewise_linear(function))
    value, slope = activations.activate(ring, x.share, function)
    return mark(x.recorded(value), origin.after(ActivationUse(function, slope)))


def _check_enabled() -> None:
    if any(FUNCTION_REGISTRY.get(name) is not cls for name, cls in FUNCTIONS.items()):
        raise InsecureError("crypten_ext is not enabled: call crypten_ext.enable() first.")
