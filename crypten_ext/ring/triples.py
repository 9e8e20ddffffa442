"""Triples of products, from whatever provider CrypTen is configured with."""

from collections.abc import Sequence

import torch

import crypten


class HostsTriples:
    """Of those who deal our tuples, one that has no triples of its own."""

    def deal_triple(self, op: str, x: Sequence[int], y: Sequence[int]) -> list[torch.Tensor]:
        """Returns this party's shares of uniform a and b of these shapes, and of op(a, b)."""
        provider = crypten.mpc.get_default_provider()
        dealt = provider.generate_additive_triple(x, y, op, device=torch.device("cpu"))
        return [each.share for each in dealt]
