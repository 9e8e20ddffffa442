"""What a party tells all others in the clear, and what it sent so far."""

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


def traffic() -> tuple[int, int]:
    """Returns rounds and bytes of this party by CrypTen's own count (sent and received)."""
    statistics = communicator.get().get_communication_stats()
    return int(statistics["rounds"]), int(statistics["bytes"])
