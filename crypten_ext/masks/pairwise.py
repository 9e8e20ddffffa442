"""Masks that cancel over all parties, from a key for each pair of them.

CrypTen's zero sharings have only neighbours' keys: of four or more parties, the two neighbours of
one know its mask. These masks only all others together know.
"""

from collections.abc import Sequence

import torch

from crypten_ext.masks.key_agreement import KeyPair
from crypten_ext.masks.keystream import Keystream

from crypten import communicator


class PairwiseMasks:
    """This party's masks; every party makes its own, and draws the same shapes in turn.

    Making them takes one round of 32 public words.
    """

    def __init__(self) -> None:
        world = communicator.get()
        rank, parties = world.get_rank(), world.get_world_size()
        own = KeyPair()
        everybody = world.all_gather(own.public)
        self._streams = []
        for other in range(parties):
            if other != rank:
                low, high = sorted((rank, other))
                key = own.agree(everybody[other], f"pairwise masks {low}-{high} of {parties}")
                self._streams.append((1 if rank == low else -1, Keystream(key)))

    def draw(self, shape: Sequence[int]) -> torch.Tensor:
        """Returns this party's words, which add up to zero with those of all others."""
        mask = torch.zeros(tuple(shape), dtype=torch.int64)
        for sign, stream in self._streams:
            mask += sign * stream.words(shape)
        return mask
