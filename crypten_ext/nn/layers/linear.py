"""Linear layers of scripts: ours, and what CrypTen makes of PyTorch's."""

from typing import Any, cast

from crypten_ext.nn.layers.applying import (
    Recording,
    apply_trained,
    check_enabled,
    check_precision,
    is_training,
)
from crypten_ext.nn.provenance import are_trained
from extensions.errors import ArgumentError
from extensions.layers.stages import trained

import crypten
from crypten.mpc import MPCTensor


class Linear(Recording, crypten.nn.Linear):
    """Computes x @ weight.T + bias with exact truncation; an optimizer trains it privately.

    Args and parameters are those of `crypten.nn.Linear`: weight (out_features, in_features) and
    bias (out_features,). Inputs are (rows, in_features).

    Examples:
        >>> model = crypten_ext.nn.Linear(4, 3).encrypt()
        >>> features, _ = crypten_ext.share_records(x, y, classes=3)
        >>> model.eval()(features).size()
        torch.Size([80, 3])
    """

    def forward(self, x: MPCTensor) -> MPCTensor:
        return _apply_linear(self, x, self.weight, getattr(self, "bias", None))


class Gemm(Recording, crypten.nn.Gemm):
    """The Linear of a converted model: without state, its inputs are (x, weight, bias)."""

    def forward(self, x: list[MPCTensor]) -> MPCTensor:
        return _apply_linear(self, x[0], x[1], x[2])


class BiasFree(Recording, crypten.nn.MatMul):
    """The Linear without bias of a converted model: its inputs are (x, weight)."""

    def forward(self, x: list[MPCTensor]) -> MPCTensor:
        return _apply_linear(self, x[0], x[1], None)


def _apply_linear(layer: Any, x: Any, weight: Any, bias: Any) -> MPCTensor:
    check_enabled()
    check_precision(x, weight, bias)
    outputs, inputs = weight.size()
    if x.dim() != 2 or x.size(1) != inputs:
        advice = "Flatten records before you share them."
        raise ArgumentError("x", tuple(x.size()), f"(rows, {inputs})", advice, code="shape")
    if not is_training(layer):
        return cast(MPCTensor, x.private_linear(weight, bias))
    has_weight, has_bias = are_trained(weight, bias)
    stage = trained.Linear(inputs, outputs, has_bias, has_weight)
    return apply_trained(layer, x, weight, bias, [stage], [outputs])
