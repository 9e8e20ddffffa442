"""One message round: whatever must be opened now, in one collective."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed import ReduceOp

from crypten_ext.ring.exchange import all_reduced
from crypten_ext.ring.foreseen import active

from crypten import communicator


def open_sum(shares: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the values of additively shared words; one round for all of them."""
    return _open(shares, ReduceOp.SUM)


def open_xor(shares: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the values of XOR-shared words; one round for all of them."""
    return _open(shares, ReduceOp.BXOR)


def _open(shares: Sequence[torch.Tensor], op: Any) -> list[torch.Tensor]:
    flat = torch.cat([share.reshape(-1) for share in shares])
    mode = active()
    words = all_reduced(flat, op) if mode is None else mode.opened(flat)
    pieces = torch.split(words, [share.numel() for share in shares])
    return [piece.reshape(share.shape) for piece, share in zip(pieces, shares, strict=True)]


def is_leader() -> bool:
    """Whether this party is the one that adds public constants to its share."""
    return bool(communicator.get().get_rank() == 0)
