"""What a party tells all others in the clear."""

from collections.abc import Sequence

import torch

from extensions.protocols.agreement import Words

from crypten import communicator

SOFTWARE = ("crypten", "torch")
"""Distributions whose versions must be equal at all parties."""


def exchange(own: Sequence[Words]) -> list[list[int]]:
    """Returns every party's words by rank, given those of this one; one round."""
    (words,) = own
    message = torch.tensor(list(words), dtype=torch.int64)
    return [each.tolist() for each in communicator.get().all_gather(message)]
