"""Tensors of the CPU as the bytes of messages, and how several become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed import ReduceOp

Combine = Callable[..., torch.Tensor]
"""Of two tensors, and of `out` where the result goes if it is given."""

_COMBINE: Sequence[tuple[Any, Combine]] = (
    (ReduceOp.SUM, torch.add),
    (ReduceOp.BXOR, torch.bitwise_xor),
    (ReduceOp.PRODUCT, torch.mul),
    (ReduceOp.MIN, torch.minimum),
    (ReduceOp.MAX, torch.maximum),
    (ReduceOp.BAND, torch.bitwise_and),
    (ReduceOp.BOR, torch.bitwise_or),
)


def combination(options: Any) -> Combine:
    """Returns what torch's options ask for; NotImplementedError for what there is not."""
    wanted = ReduceOp.SUM if options is None else options.reduceOp
    for op, combine in _COMBINE:
        if wanted == op:
            return combine
    raise NotImplementedError(f"there is no {wanted} here")


def view(tensor: torch.Tensor) -> memoryview:
    """Returns a tensor's bytes, those of a copy where it is not contiguous."""
    flat = tensor.detach().contiguous().reshape(-1)
    data: Any = flat.view(torch.uint8).numpy()
    return memoryview(data)


def room(tensor: torch.Tensor) -> tuple[torch.Tensor, Callable[[], None]]:
    """Returns where a tensor is received, and what makes it the tensor's own value then."""
    into = tensor if tensor.is_contiguous() else torch.empty(tensor.shape, dtype=tensor.dtype)

    def finish() -> None:
        if into is not tensor:
            tensor.detach().copy_(into)

    return into, finish
