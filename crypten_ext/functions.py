"""New methods of encrypted tensors, as CrypTen autograd functions, and a model's accuracy."""

import math
from typing import Any

from crypten_ext.ring.crypten_ring import as_tensor, ring_of
from crypten_ext.ring.exchange import open_sum
from extensions.errors import ArgumentError
from extensions.layers.evaluation import count_misses
from extensions.protocols import clipping
from extensions.protocols.clipping import ClipPlan
from extensions.protocols.inverse_sqrt import DEFAULT_DEGREE, InverseSqrtPlan, inverse_sqrt

from crypten.gradients import AutogradFunction
from crypten.mpc import MPCTensor


class InverseSqrt(AutogradFunction):
    """``x.inverse_sqrt(degree=4)``: 1/sqrt(x), never above it.

    Guarantees:
        One-sided for every element as it is shared, with any number of parties. Encoding rounds it
        before: 0.01 is shared as 655 / 2^16, whose inverse root is 10.0027. See
        `extensions.protocols.inverse_sqrt.inverse_sqrt` for the interval and for what zero,
        negative and very large inputs give (exactly 0).

    Cost:
        12 rounds (11 with degree 2) whatever the number of parties, 17 words opened for each
        element (15 with degree 2); 15 (13) and 23 (18) with a provider of CrypTen's own other than
        its first party. The gradient -y^3/2 takes 4 rounds; it is right while it is below 2^(61 -
        2f) in magnitude.
    """

    @staticmethod
    def forward(ctx: Any, x: MPCTensor, degree: int = DEFAULT_DEGREE) -> MPCTensor:
        ring = ring_of(x)
        plan = InverseSqrtPlan(frac_bits=ring.frac_bits, degree=degree)
        y = as_tensor(ring, inverse_sqrt(ring, x.share, plan))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: MPCTensor) -> MPCTensor:
        (y,) = ctx.saved_tensors
        ring = ring_of(y)
        first, second = ring.mul([(grad_output.share, y.share), (y.share, y.share)])
        first, second = ring.truncate([(first, ring.frac_bits), (second, ring.frac_bits)])
        (product,) = ring.mul([(first, second)])
        (half,) = ring.truncate([(product, ring.frac_bits + 1)])
        return as_tensor(ring, -half)


class ClipFactor(AutogradFunction):
    """``x.clip_factor(max_norm=1.0, range_bits=16, degree=2)``: min(1, max_norm / sqrt(x)).

    x holds squared norms. Never above the true value; exactly 0 from max_norm^2 2^range_bits on,
    and for x of -3 max_norm^2 ulp or less (the ratio is rounded up). No gradient flows through it.

    Cost:
        6 rounds; 14 words opened for each element. See `extensions.protocols.clipping.clip_factor`.

    Raises:
        ArgumentError: max_norm outside 2^-16 .. 2^16 or a range that does not fit.
    """

    @staticmethod
    def forward(
        ctx: Any, x: MPCTensor, max_norm: float = 1.0, range_bits: int = 16, degree: int = 2
    ) -> MPCTensor:
        ring = ring_of(x)
        plan = ClipPlan(frac_bits=ring.frac_bits, range_bits=range_bits, degree=degree)
        ratio, shift = clipping.ratio_up(x.share, ring.frac_bits, max_norm, bits=ring.frac_bits)
        factor = as_tensor(ring, clipping.clip_factor(ring, ratio, plan, shift))
        ctx.mark_non_differentiable(factor)
        return factor


class ClipByNorm(AutogradFunction):
    """``x.clip_by_norm(max_norm, range_bits=16, degree=2)``: no row longer than max_norm (1 + eta).

    Rows are what the first axis counts; a vector is one row. No gradient flows through it. See
    `extensions.protocols.clipping.clip_by_norm` for eta, the range and the edge cases.

    Cost:
        9 rounds; 2 words opened for each element and 15 for each row.
    """

    @staticmethod
    def forward(
        ctx: Any, x: MPCTensor, max_norm: float, range_bits: int = 16, degree: int = 2
    ) -> MPCTensor:
        ring = ring_of(x)
        if x.dim() == 0:
            raise ArgumentError("x", "a scalar", "a tensor with rows to clip", code="shape")
        plan = ClipPlan(frac_bits=ring.frac_bits, range_bits=range_bits, degree=degree)
        shape = x.share.shape
        count, *features = (1, *shape) if len(shape) == 1 else shape
        rows = x.share.reshape(count, math.prod(features))
        clipped = clipping.clip_by_norm(ring, rows, max_norm, plan)
        result = as_tensor(ring, clipped.reshape(shape))
        ctx.mark_non_differentiable(result)
        return result


def count_correct(logits: MPCTensor, targets: MPCTensor) -> int:
    """Returns the number of correct predictions; opens only that number.

    Args:
        logits: encrypted (rows, classes).
        targets: encrypted one-hot rows of the same shape.

    Cost:
        8 rounds and the opening.

    Raises:
        ArgumentError: other shapes.

    Examples:
        >>> logits = crypten.cryptensor(torch.tensor([[0.1, 0.9], [0.8, 0.2]]))
        >>> targets = crypten.cryptensor(torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
        >>> crypten_ext.count_correct(logits, targets)
        1
    """
    misses = count_misses(ring_of(logits), logits.share, targets.share, ties="right")
    (count,) = open_sum([misses.reshape(1)])
    return int(logits.size(0) - count.item())
