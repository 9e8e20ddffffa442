"""This party's shares by names that no parameter has, as checkpoints keep them."""

from collections.abc import Mapping

import torch

from extensions.ring.fixed_point import Integers


def to_arrays(prefix: str, shares: Mapping[str, torch.Tensor]) -> dict[str, Integers]:
    """Returns shares that go by parameters' names, with the prefix before each; secret."""
    return {prefix + name: share.numpy() for name, share in shares.items()}


def from_arrays(prefix: str, arrays: Mapping[str, Integers]) -> dict[str, torch.Tensor]:
    """Returns those that `to_arrays` named so, copied; others of the mapping are left alone."""
    return {
        name.removeprefix(prefix): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
