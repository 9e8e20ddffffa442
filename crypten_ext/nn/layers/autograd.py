"""What CrypTen's own differentiation knows of our layers."""

from typing import Any

import torch

from crypten_ext.ring.crypten_ring import as_tensor, bits_of, ring_of
from extensions.errors import GradientError
from extensions.layers.activations import PiecewiseLinear, activate, activation_gradient
from extensions.layers.linear_layers import backpropagate, linear

from crypten.gradients import AutogradFunction
from crypten.mpc import MPCTensor


class Linear(AutogradFunction):
    """x @ weight.T + bias, rounded once, with the usual gradients: sums over the batch.

    Cost:
        2 rounds forward; 2 backward for the input's gradient where one is needed.
    """

    @staticmethod
    def forward(ctx: Any, x: MPCTensor, weight: MPCTensor, bias: MPCTensor | None) -> MPCTensor:
        ring = ring_of(x)
        ctx.save_multiple_for_backward([x, weight, bias])
        bias_share = None if bias is None else bias.share
        return as_tensor(ring, linear(ring, x.share, weight.share, bias_share))

    @staticmethod
    def backward(ctx: Any, grad_output: MPCTensor) -> tuple[MPCTensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        ring = ring_of(x)
        to_input = None
        if x.requires_grad:
            to_input = as_tensor(ring, backpropagate(ring, grad_output.share, weight.share))
        (product,) = ring.matmul([(grad_output.share.T, x.share)])
        (to_weight,) = ring.truncate([(product, ring.frac_bits)])
        to_bias = [] if bias is None else [as_tensor(ring, grad_output.share.sum(0))]
        return (to_input, as_tensor(ring, to_weight), *to_bias)


class Activation(AutogradFunction):
    """A piecewise-linear activation (`extensions.layers.activations`) and its derivative."""

    @staticmethod
    def forward(ctx: Any, x: MPCTensor, function: PiecewiseLinear) -> MPCTensor:
        ring = ring_of(x)
        value, slope = activate(ring, x.share, function)
        ctx.save_multiple_for_backward([as_tensor(ring, slope), function])
        return as_tensor(ring, value)

    @staticmethod
    def backward(ctx: Any, grad_output: MPCTensor) -> MPCTensor:
        slope, function = ctx.saved_tensors
        ring = ring_of(grad_output)
        return as_tensor(ring, activation_gradient(ring, grad_output.share, slope.share, function))


class Recorded(AutogradFunction):
    """What a layer in private training returned; `crypten_ext.nn.tape.backward` alone reads it."""

    @staticmethod
    def forward(ctx: Any, source: MPCTensor, share: torch.Tensor) -> MPCTensor:
        recorded: MPCTensor = MPCTensor.from_shares(share, precision=bits_of(source))
        return recorded

    @staticmethod
    def backward(ctx: Any, grad_output: MPCTensor) -> MPCTensor:
        raise GradientError(
            'The gradient did not come from a loss of crypten_ext.nn with reduction="sum" on the '
            "model's own output. A mean divides by the batch size before clipping, and breaks the "
            "bound of each gradient. Use crypten_ext.nn.CrossEntropyLoss() or "
            "crypten_ext.nn.BCEWithLogitsLoss() instead of CrypTen's."
        )


def is_recorded(output: MPCTensor) -> bool:
    """Whether a layer in private training had a part in the output."""
    seen, waiting = {id(output)}, [output]
    while waiting:
        node = waiting.pop()
        if node.grad_fn is Recorded:
            return True
        new = [child for child in node.children if id(child) not in seen]
        seen |= {id(child) for child in new}
        waiting += new
    return False


FUNCTIONS: dict[str, type[AutogradFunction]] = {
    "private_linear": Linear,
    "piecewise_linear": Activation,
    "recorded": Recorded,
}
"""By the names under which CrypTen's tensors have them while this project is enabled."""
