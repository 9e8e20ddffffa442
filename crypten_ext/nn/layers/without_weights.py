"""Layers of scripts without weights: activations, other shapes of records, sums of branches."""

from typing import Any

from crypten_ext.nn.layers.applying import apply_activation, check_enabled
from crypten_ext.nn.layers.autograd import is_recorded
from crypten_ext.nn.provenance import Provenance, features_of, mark, rejection
from crypten_ext.ring.crypten_ring import ring_of
from extensions.errors import ArgumentError
from extensions.layers import activations

import crypten
from crypten.cryptensor import CrypTensor
from crypten.mpc import MPCTensor


class ReLU(crypten.nn.ReLU):
    """Computes min(max(x, 0), max_value); the cap bounds the rounding of clipped gradients.

    Args:
        max_value: in (0, 64].

    Cost:
        4 rounds forward, 1 backward.

    Examples:
        >>> values = crypten.cryptensor(torch.tensor([-1.0, 2.0, 100.0]))
        >>> crypten_ext.nn.ReLU(max_value=8.0).encrypt()(values).get_plain_text().round(decimals=2)
        tensor([0., 2., 8.])
    """

    max_value = 8.0

    def __init__(self, max_value: float = 8.0) -> None:
        super().__init__()
        self.max_value = activations.relu(max_value).bound

    def forward(self, x: MPCTensor) -> MPCTensor:
        return apply_activation(x, activations.relu(self.max_value))


class Sigmoid(crypten.nn.Sigmoid):
    """A five-piece sigmoid, within 0.011 of 1 / (1 + exp(-x)).

    Cost:
        5 rounds forward, 2 backward (CrypTen's own: 58 with three parties).

    Examples:
        >>> values = crypten.cryptensor(torch.tensor([-8.0, 0.0, 8.0]))
        >>> crypten_ext.nn.Sigmoid().encrypt()(values).get_plain_text().round(decimals=1)
        tensor([-0.0000, 0.5000, 1.0000])
    """

    def forward(self, x: MPCTensor) -> MPCTensor:
        return apply_activation(x, activations.sigmoid())


class Tanh(crypten.nn.Module):
    """A five-piece tanh, within 0.022 of it; CrypTen has no module of that name.

    `crypten.nn.from_pytorch` makes one of `torch.nn.Tanh` while this project is enabled.

    Cost:
        5 rounds forward, 2 backward.

    Examples:
        >>> values = crypten.cryptensor(torch.tensor([-8.0, 0.0, 8.0]))
        >>> crypten_ext.nn.Tanh().encrypt()(values).get_plain_text().round(decimals=1)
        tensor([-1.,  0.,  1.])
    """

    def forward(self, x: MPCTensor) -> MPCTensor:
        return apply_activation(x, activations.tanh())

    @staticmethod
    def from_onnx(attributes: Any = None) -> "Tanh":
        """Returns the module of a converted model, which has no attributes."""
        return Tanh()


class Flatten(crypten.nn.Flatten):
    """Each record as one vector; what is known of the batch stays known."""

    def forward(self, x: MPCTensor) -> MPCTensor:
        return _known(x, super().forward(x), self.axis == 1)


class Reshape(crypten.nn.Reshape):
    """Another shape of each record, as `view` gives it in a converted model.

    Where it has another number of rows, what is known of the batch is lost, and layers behind it
    refuse to be trained.
    """

    def forward(self, tensor: Any, shape: Any = None) -> MPCTensor:
        given = tensor[0] if isinstance(tensor, list) else tensor
        result = super().forward(tensor, shape)
        return _known(given, result, result.size(0) == given.size(0))


def _known(given: MPCTensor, result: MPCTensor, apart: bool) -> MPCTensor:
    origin = features_of(given)
    return result if origin is None or not apart else mark(result, origin)


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
        recorded = [isinstance(each, MPCTensor) and is_recorded(each) for each in input]
        if not any(origins) and not any(recorded):
            return super().forward(input)
        one, other = map(_of_batch, input, origins)
        kinds = [(tuple(each.size()), ring_of(each).frac_bits) for each in input]
        if kinds[0] != kinds[1]:
            found = " and ".join(f"{shape} of {bits} fractional bits" for shape, bits in kinds)
            rule = "two results of the same shape and precision"
            raise ArgumentError("input", found, rule, code="shape")
        left, right = input
        origin = one.added_to(other, left.share[:1].numel())
        source = left if left.requires_grad else right
        return mark(source.recorded(left.share + right.share), origin)


def _of_batch(branch: Any, origin: Provenance | None) -> Provenance:
    if origin is None:
        raise rejection("A branch of a sum", branch, "the output of the model's layers for a batch")
    return origin
