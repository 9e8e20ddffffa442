"""Modules that give records another shape: each row stays one record's, and is known as such."""

from typing import Any

from crypten_ext.nn.provenance import features_of, mark

import crypten
from crypten.mpc import MPCTensor


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
