"""Layers and losses whose gradients a private step can clip example by example.

A model is built from them with `crypten.nn.Sequential`, or by `crypten.nn.from_pytorch`; in both
cases our optimizers adopt CrypTen's own modules (`crypten_ext.nn.adoption`).
"""

import math
from contextlib import ExitStack
from typing import Any, ClassVar

from crypten_ext.nn.autograd import FUNCTIONS, tapes_of
from crypten_ext.nn.tape import PublicBatch, SharedBatch, SummedLoss, Tape
from crypten_ext.ring.crypten_ring import as_tensor, ring_of
from extensions.errors import ArgumentError, GradientError, InsecureError
from extensions.network import activations, losses

import crypten
from crypten.gradients import FUNCTION_REGISTRY
from crypten.mpc import MPCTensor
from crypten.nn import Sequential

__all__ = [
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "Linear",
    "Loss",
    "ReLU",
    "Sequential",
    "Sigmoid",
]


class Linear(crypten.nn.Linear):
    """x @ weight.T + bias with exact truncation; trained privately once an optimizer adopts it.

    Args and parameters are those of `crypten.nn.Linear`: weight (out_features, in_features) and
    bias (out_features,). Inputs are (rows, in_features).
    """

    tape: Tape | None = None

    def forward(self, x: MPCTensor) -> MPCTensor:
        return _apply_linear(x, self.weight, getattr(self, "bias", None), self.tape)


class Gemm(crypten.nn.Gemm):
    """The Linear of a converted model: without state, its inputs are (x, weight, bias)."""

    tape: Tape | None = None

    def forward(self, x: list[MPCTensor]) -> MPCTensor:
        return _apply_linear(x[0], x[1], x[2], self.tape)


class BiasFree(crypten.nn.MatMul):
    """The Linear without bias of a converted model: its inputs are (x, weight)."""

    tape: Tape | None = None

    def forward(self, x: list[MPCTensor]) -> MPCTensor:
        return _apply_linear(x[0], x[1], None, self.tape)


class ReLU(crypten.nn.ReLU):
    """min(max(x, 0), max_value); the cap bounds what rounding can add to a clipped gradient.

    Args:
        max_value: in (0, 64].

    Cost:
        5 rounds forward, 1 backward.
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
        6 rounds forward, 2 backward (CrypTen's own: 58 with three parties).
    """

    def forward(self, x: MPCTensor) -> MPCTensor:
        return _apply_activation(x, activations.sigmoid())


class Flatten(crypten.nn.Flatten):
    """Each record as one vector; the batch keeps what `poisson_batches` says of it."""

    def forward(self, x: MPCTensor) -> MPCTensor:
        result = super().forward(x)
        for name in ("public_batch", "shared_batch"):
            if hasattr(x, name):
                setattr(result, name, getattr(x, name))
        return result


def _apply_linear(x: Any, weight: Any, bias: Any, tape: Tape | None) -> MPCTensor:
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
    return x.private_linear(weight, bias, tape)


def _apply_activation(x: Any, function: activations.PiecewiseLinear) -> MPCTensor:
    _check_enabled()
    ring_of(x)
    result = x.piecewise_linear(function)
    features = math.prod(x.size()[1:])
    result.public_batch = PublicBatch(
        feature_norm=activations.OUTPUT_SLACK * function.bound * math.sqrt(features)
    )
    return result


def _check_enabled() -> None:
    if any(FUNCTION_REGISTRY.get(name) is not cls for name, cls in FUNCTIONS.items()):
        raise InsecureError("crypten_ext is not enabled: call crypten_ext.enable() first.")


class Loss:
    """A loss whose value is never computed: only its gradient is, and nothing is opened.

    Raises:
        GradientError: in `backward`, where the model's output carries no graph.
    """

    def __init__(self, output: MPCTensor, gradient: MPCTensor, loss: SummedLoss) -> None:
        self._output, self._gradient, self._loss = output, gradient, loss

    def backward(self) -> None:
        """Sends the gradient through the model; its layers record what the optimizer needs."""
        if not self._output.requires_grad:
            raise GradientError(
                "The model's output needs no gradient: call model.train(), leave crypten.no_grad()."
            )
        with ExitStack() as recording:
            for tape in tapes_of(self._output):
                recording.enter_context(tape.begin(self._loss))
            self._output.backward(self._gradient)

    def get_plain_text(self, dst: int | None = None) -> None:
        """Raises InsecureError: a loss opened each step is a release that nothing pays for."""
        raise InsecureError(
            "The loss of a training step is not computed and cannot be opened: it would "
            "release training data that nothing accounts for. Evaluate on held-out data."
        )


class _SummedCrossEntropy:
    """Sum over examples of a cross-entropy, by the gradients of `extensions.network.losses`."""

    kind: ClassVar[losses.Loss]

    def __init__(self, reduction: str = "sum") -> None:
        if reduction != "sum":
            raise GradientError(
                f"reduction = {reduction!r}: must be 'sum'. A mean divides by the batch size "
                "before clipping; the optimizer divides by the expected batch size after it."
            )

    def __call__(self, logits: MPCTensor, targets: MPCTensor) -> Loss:
        ring = ring_of(logits)
        if logits.size() != targets.size():
            raise ArgumentError("targets", tuple(targets.size()), f"{tuple(logits.size())}")
        if ring_of(targets).frac_bits != ring.frac_bits:
            raise ArgumentError("targets", "another precision", f"{ring.frac_bits} fractional bits")
        delta_norm = losses.residual_norm(self.kind, logits.size(1))
        gradient = losses.residual(ring, self.kind, logits.share, targets.share)
        shared: SharedBatch | None = getattr(targets, "shared_batch", None)
        padding = None if shared is None else shared.padding
        loss = SummedLoss(delta_norm=delta_norm, padding=padding)
        return Loss(logits, as_tensor(ring, gradient), loss)


class BCEWithLogitsLoss(_SummedCrossEntropy):
    """Sum over examples and outputs of the sigmoid cross-entropy; one-vs-all for several classes.

    Args:
        reduction: "sum", the only one that keeps each example's gradient apart.

    Cost:
        6 rounds: the gradient is sigmoid(logits) - targets.

    Raises:
        GradientError: another reduction.
        ArgumentError: shapes that differ.
    """

    kind = "sigmoid"


class CrossEntropyLoss(_SummedCrossEntropy):
    """Sum over examples of the softmax cross-entropy; targets are one-hot, as from poisson_batches.

    Args:
        reduction: "sum", the only one that keeps each example's gradient apart.

    Cost:
        13 rounds, with two classes 6: the gradient is softmax(logits) - targets, with the error
        that `extensions.network.softmax` states.

    Raises:
        GradientError: another reduction.
        ArgumentError: shapes that differ, or other than 2..128 classes.
    """

    kind = "softmax"


LOSSES: dict[losses.Loss, type[_SummedCrossEntropy]] = {
    loss.kind: loss for loss in (BCEWithLogitsLoss, CrossEntropyLoss)
}
"""Which class of this module computes which loss of `extensions.network.losses`."""
