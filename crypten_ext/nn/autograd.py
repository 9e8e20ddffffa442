"""Autograd functions beneath `crypten_ext.nn`: they remember what a private step needs."""

from typing import Any

from crypten_ext.nn.tape import Tape
from crypten_ext.ring.crypten_ring import as_tensor, ring_of
from extensions.network.activations import PiecewiseLinear, activate, activation_gradient
from extensions.network.layers import backpropagate, linear

from crypten.gradients import AutogradFunction
from crypten.mpc import MPCTensor


class Linear(AutogradFunction):
    """x @ weight.T + bias, rounded once.

    With a tape (a DPSGD or SGD of ours has adopted the layer) the backward pass records
    (inputs, deltas) and forms no gradient of the parameters; without one it forms the usual sums.

    Cost:
        2 rounds forward; 2 backward for the input's gradient where one is needed.
    """

    @staticmethod
    def forward(
        ctx: Any, x: MPCTensor, weight: MPCTensor, bias: MPCTensor | None, tape: Tape | None
    ) -> MPCTensor:
        ring = ring_of(x)
        if tape is not None:
            ctx.mark_non_differentiable([p for p in (weight, bias) if p is not None])
        ctx.save_multiple_for_backward([x, weight, bias, tape])
        bias_share = None if bias is None else bias.share
        return as_tensor(ring, linear(ring, x.share, weight.share, bias_share))

    @staticmethod
    def backward(ctx: Any, grad_output: MPCTensor) -> tuple[MPCTensor | None, ...]:
        x, weight, bias, tape = ctx.saved_tensors
        ring = ring_of(x)
        to_input = None
        if x.requires_grad:
            to_input = as_tensor(ring, backpropagate(ring, grad_output.share, weight.share))
        if tape is not None:
            tape.record(x, weight, bias, grad_output.share)
            return (to_input,)
        (product,) = ring.matmul([(grad_output.share.T, x.share)])
        (to_weight,) = ring.truncate([(product, ring.frac_bits)])
        to_bias = [] if bias is None else [as_tensor(ring, grad_output.share.sum(0))]
        return (to_input, as_tensor(ring, to_weight), *to_bias)


def tapes_of(output: MPCTensor) -> list[Tape]:
    """Returns the tapes of the layers from which the output was computed."""
    found, waiting = {id(output): output}, [output]
    while waiting:
        new = {id(node): node for node in waiting.pop().children if id(node) not in found}
        found |= new
        waiting += new.values()
    kept = [each for node in found.values() for each in node.ctx.saved_tensors]
    return list(dict.fromkeys(each for each in kept if isinstance(each, Tape)))


class Activation(AutogradFunction):
    """A piecewise-linear activation (`extensions.network.activations`) and its derivative."""

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


FUNCTIONS: dict[str, type[AutogradFunction]] = {
    "private_linear": Linear,
    "piecewise_linear": Activation,
}
"""By the names under which CrypTen's tensors have them while this project is enabled."""
