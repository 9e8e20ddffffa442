"""Losses whose value is never computed: only their gradients are, example by example."""

from typing import ClassVar

import torch

from crypten_ext.nn.layers.autograd import is_recorded
from crypten_ext.nn.provenance import Provenance, provenance_of, rejection
from crypten_ext.ring.crypten_ring import CrypTenRing, as_tensor, check_same_bits, ring_of
from extensions.errors import ArgumentError, GradientError, InsecureError
from extensions.layers import losses

from crypten.mpc import MPCTensor


class Loss:
    """A loss whose value is never computed: only its gradient is, and nothing is opened.

    Without an `origin` no optimizer of ours has adopted the model.
    """

    def __init__(
        self,
        ring: CrypTenRing,
        output: MPCTensor,
        gradient: torch.Tensor,
        kind: losses.Loss,
        origin: Provenance | None,
    ) -> None:
        self._ring, self._output, self._gradient = ring, output, gradient
        self._kind, self._origin = kind, origin

    def backward(self) -> None:
        """Sends the gradient through the model; the optimizer gets what its step needs.

        Raises GradientError where the model's output carries no graph.
        """
        if self._origin is not None:
            tape = self._origin.layers[-1].tape
            tape.go_back(self._ring, self._origin, self._gradient, self._kind)
            return
        if not self._output.requires_grad:
            raise GradientError(
                "The model's output carries no gradient. Call model.train(), leave "
                "crypten.no_grad(), and pass on the output unchanged, without detach() or a copy."
            )
        self._output.backward(as_tensor(self._ring, self._gradient))

    def get_plain_text(self, dst: int | None = None) -> None:
        """Raises InsecureError: a loss opened each step is a release that nothing pays for."""
        raise InsecureError(
            "A training step does not compute the loss, because opening it would release training "
            "data without an epsilon. Evaluate on held-out data."
        )


class _SummedCrossEntropy:
    """Sum over examples of a cross-entropy, by the gradients of `extensions.layers.losses`."""

    kind: ClassVar[losses.Loss]

    def __init__(self, reduction: str = "sum") -> None:
        if reduction != "sum":
            raise GradientError(
                f"reduction must be 'sum', not {reduction!r}. A mean divides by the batch size "
                "before clipping; the optimizer divides by the expected batch size after it."
            )

    def __call__(self, logits: MPCTensor, targets: MPCTensor) -> Loss:
        ring = ring_of(logits)
        if logits.size() != targets.size():
            allowed = f"of shape {tuple(logits.size())}"
            raise ArgumentError("targets", tuple(targets.size()), allowed, code="shape")
        check_same_bits("targets", targets, ring.frac_bits)
        origin = _checked_origin(logits, targets)
        losses.residual_norm(self.kind, logits.size(1))  # refuses so many outputs
        gradient = losses.residual(ring, self.kind, logits.share, targets.share)
        return Loss(ring, logits, gradient, self.kind, origin)


def _checked_origin(logits: MPCTensor, targets: MPCTensor) -> Provenance | None:
    """Returns where the logits come from; None if no layer in private training is in question.

    Raises GradientError if they are not the model's output as it is, or the targets not those of
    its batch.
    """
    origin = provenance_of(logits)
    if origin is None and not is_recorded(logits):
        return None
    if origin is None or not origin.layers:
        raise rejection("logits", logits, "the output of the model's last layer")
    if not origin.fits(provenance_of(targets)):
        raise rejection("targets", targets, "those of the batch of these logits")
    return origin


class BCEWithLogitsLoss(_SummedCrossEntropy):
    """Sum over examples and outputs of the sigmoid cross-entropy; one-vs-all for several classes.

    Args:
        reduction: "sum", the only one that keeps each example's gradient apart.

    Cost:
        5 rounds: the gradient is sigmoid(logits) - targets.

    Raises:
        GradientError: another reduction.
        ArgumentError: shapes that differ.

    Examples:
        >>> model = crypten_ext.nn.Linear(4, 3).encrypt()
        >>> for xb, yb in crypten_ext.poisson_batches(x, y, sample_rate=1.0, steps=1, classes=3):
        ...     crypten_ext.nn.BCEWithLogitsLoss()(model(xb), yb).backward()
        >>> model.weight.grad.size()
        torch.Size([3, 4])
    """

    kind = "sigmoid"


class CrossEntropyLoss(_SummedCrossEntropy):
    """Sum over examples of the softmax cross-entropy; targets are one-hot, as from poisson_batches.

    Args:
        reduction: "sum", the only one that keeps each example's gradient apart.

    Cost:
        13 rounds, with two classes 5: the gradient is softmax(logits) - targets, with the error
        that `extensions.layers.softmax` states.

    Raises:
        GradientError: another reduction.
        ArgumentError: shapes that differ, or other than 2..128 classes.

    Examples:
        >>> model = crypten_ext.nn.Linear(4, 3).encrypt()
        >>> for xb, yb in crypten_ext.poisson_batches(x, y, sample_rate=1.0, steps=1, classes=3):
        ...     crypten_ext.nn.CrossEntropyLoss()(model(xb), yb).backward()
        >>> model.weight.grad.size()
        torch.Size([3, 4])
    """

    kind = "softmax"


LOSSES: dict[losses.Loss, type[_SummedCrossEntropy]] = {
    loss.kind: loss for loss in (BCEWithLogitsLoss, CrossEntropyLoss)
}
"""Which class of this module computes which loss of `extensions.layers.losses`."""
