"""Sums of two branches in a script's model: residual connections, low-rank pairs."""

from typing import Any

from crypten_ext.nn.layers.applying import check_enabled
from crypten_ext.nn.layers.autograd import is_recorded
from crypten_ext.nn.provenance import Provenance, features_of, mark, refusal
from crypten_ext.ring.crypten_ring import ring_of
from extensions.errors import ArgumentError

import crypten
from crypten.cryptensor import CrypTensor
from crypten.mpc import MPCTensor


class Add(crypten.nn.module.Add):
    """The sum of what two branches of a model make of the same records; CrypTen's, in training.

    Cost:
        None; where the branches part, the gradients of both are added.

    Raises:
        ArgumentError: when called: the results differ in shape or precision.
        GradientError: one is not made of a batch by layers of the model alone, or a layer with
            weights stands in both branches.
    """

    def forward(self, input: Any) -> MPCTensor:
        check_enabled()
        if not (self.training and CrypTensor.AUTOGRAD_ENABLED):
            return super().forward(input)
        origins = [features_of(each) if isinstance(each, MPCTensor) else None for each in input]
        if not any(origins) and not any(map(_is_of_a_layer, input)):
            return super().forward(input)
        one, other = map(_known, input, origins)
        kinds = [(tuple(each.size()), ring_of(each).frac_bits) for each in input]
        if kinds[0] != kinds[1]:
            found = " and ".join(f"{shape} of {bits} fractional bits" for shape, bits in kinds)
            rule = "two results of the same shape and precision"
            raise ArgumentError("input", found, rule, code="shape")
        left, right = input
        origin = one.beside(other, left.share[:1].numel())
        source = left if left.requires_grad else right
        return mark(source.recorded(left.share + right.share), origin)


def _is_of_a_layer(branch: Any) -> bool:
    """Whether a layer in private training had a part in it."""
    return isinstance(branch, MPCTensor) and is_recorded(branch)


def _known(branch: Any, origin: Provenance | None) -> Provenance:
    if origin is None:
        raise refusal("A branch of a sum", branch, "what layers of the model made of a batch")
    return origin
