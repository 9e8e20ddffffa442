"""DPSGD by PyTorch's per-example gradients and NumPy, with the interval that rounding leaves.

Errors are propagated layer by layer: every truncation is off by at most an ulp, the clip factor is
below its true value by the polynomial's error at most and never above it.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from extensions.layers.activations import PiecewiseLinear, sigmoid
from extensions.layers.losses import Loss
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.clipping import inverse_square_up
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.noise import summand_scale
from tests.helpers.reference_softmax import softmax_interval

Array = npt.NDArray[np.float64]


def piecewise(z: torch.Tensor, function: PiecewiseLinear) -> torch.Tensor:
    """Returns the function of z as a sum of clamped ramps, through which gradients flow."""
    ends, total = itertools.pairwise(function.thresholds), torch.full_like(z, function.offset)
    for (low, high), slope in zip(ends, function.slopes[1:-1], strict=True):
        total = total + slope / 2**function.slope_bits * (z.clamp(low, high) - low)
    return total


@dataclass
class Gradients:
    """Per-example gradients that PyTorch materialises, and how far rounding may move them.

    Attributes:
        values: (rows, parameters), of biases with respect to weights of the input s.
        errors: (rows, parameters).
        rounded_up: (rows,), how much the ring may add to their squared norms.
        inputs: (parameters,), s for biases, else 1: what a step takes times the gradient.
    """

    values: Array
    errors: Array
    rounded_up: Array
    inputs: Array


def predictions(logits: torch.Tensor, error: float, loss: Loss, f: int) -> tuple[Array, float]:
    """Returns the probabilities, and how far a host's may lie from them.

    Args:
        logits: (rows, classes).
        error: how far a host's logits may lie from these.
        loss: which function it is.
        f: fractional bits.
    """
    if loss == "sigmoid":
        steepest = max(sigmoid().slopes) / 2.0 ** sigmoid().slope_bits
        return piecewise(logits, sigmoid()).numpy(), error * steepest + 2 * 2.0**-f
    on_grid = np.rint(np.ldexp(logits.numpy(), f)).astype(np.int64)
    low, high = softmax_interval(on_grid, f, error + 2.0**-f)
    return (low + high) / 2, float((high - low).max()) / 2


def gradients(
    parameters: list[Array],
    x: Array,
    y: Array,
    plan: StepPlan,
    activation: PiecewiseLinear,
    loss: Loss = "sigmoid",
) -> Gradients:
    """Returns the gradients of the summed loss of a chain of linear layers and activations."""
    leaves = [torch.from_numpy(p).requires_grad_() for p in parameters]
    remaining, ulp, error, a = iter(leaves), 2.0**-plan.frac_bits, 0.0, torch.from_numpy(x)
    weights, inputs, outputs = [], [], []
    for shape in plan.layers:
        if outputs:
            far = [(outputs[-1] - t).abs().min() > 2 * error for t in activation.thresholds]
            assert all(far), "rounding decides a slope"
            a, error = piecewise(outputs[-1], activation), error + ulp
        weight, bias = next(remaining), next(remaining) if shape.has_bias else None
        weights.append(weight.detach().numpy())
        inputs.append((np.abs(a.detach().numpy()), error))
        outputs.append(torch.nn.functional.linear(a, weight, bias))
        error = error * np.abs(weights[-1]).sum(axis=1).max() + ulp
    predicted, error = predictions(outputs[-1].detach(), error, loss, plan.frac_bits)
    deltas = torch.from_numpy(predicted - y)
    each = [
        torch.autograd.grad(row, [*leaves, *outputs], delta, retain_graph=True)
        for row, delta in zip(outputs[-1], deltas, strict=True)
    ]
    scales = [s for shape in plan.layers for s in (1.0, shape.bias_norm) if s]
    taken = np.concatenate([np.full(p.size, s) for p, s in zip(parameters, scales, strict=True)])
    values = [taken * np.concatenate([g.ravel() for g in found[: len(leaves)]]) for found in each]

    errors: list[Array] = []
    rounded_up = np.zeros(len(x))
    for i in reversed(range(len(weights))):
        (a, a_error), s = inputs[i], plan.layers[i].bias_norm
        delta = np.abs([found[len(leaves) + i][j].numpy() for j, found in enumerate(each)])
        unit = 2.0**-plan.factor_bits + error
        of_weight = unit * (a + a_error)[:, None, :] + delta[:, :, None] * a_error
        errors.insert(0, of_weight.reshape(len(x), -1))
        if s:
            errors.insert(1, np.full_like(delta, s * unit))
        delta_unit, a_unit = (2.0 ** (1 - bits) for bits in plan.norm_bits[i])
        squares = [((v + e) ** 2).sum(axis=1) for v, e in ((delta, error), (a, a_error))]
        rounded_up += delta_unit * (squares[1] + s * s + a_unit) + squares[0] * a_unit
        error = error * np.abs(weights[i]).sum(axis=0).max() + 2 * ulp
    return Gradients(np.array(values), np.concatenate(errors, axis=1), rounded_up, taken)


def factors(found: Gradients, plan: StepPlan) -> tuple[Array, Array]:
    """Returns the least and the largest factor that the guarantees of the clip factor allow."""
    norms, errors = (np.linalg.norm(v, axis=1) for v in (found.values, found.errors))
    if not plan.private:
        return np.ones_like(norms), np.ones_like(norms)
    numerator, shift = inverse_square_up(plan.max_grad_norm)
    least = np.maximum(norms - errors, 1e-9) / plan.max_grad_norm
    most = ((norms + errors) ** 2 + found.rounded_up) * numerator / 2**shift
    most += 2.0 ** (1 - plan.frac_bits)
    clipped = (1 - plan.clip.fit.relative_error()) / np.sqrt(most) - plan.clip.shortfall(1)
    return np.where(most < 1.0, 1.0, clipped), np.minimum(1 / least, 1.0)


def noise_of(step: dict[str, Any], plan: StepPlan, source: InsecureSeededSource) -> Array:
    """Returns the sum of what all parties drew in a step."""
    bits = plan.frac_bits + plan.factor_bits
    scale = summand_scale(plan.parties, plan.sigma, frac_bits=bits, split=plan)
    drawn = [
        sum(source.gaussian(party, scale, p.shape).ravel() for party in range(plan.parties))
        for p in step["before"]
    ]
    return np.ldexp(np.concatenate(drawn).astype(np.float64), -bits)
