"""Tensors of the CPU as the bytes of messages: how several become one, how large ones travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.distributed import ReduceOp

from extensions.transport import Mesh
from extensions.transport.endpoint import Transfer

Combine = Callable[..., torch.Tensor]
"""Of two tensors, and of `out` where the result goes if it is given."""

PIECE = 1 << 15
"""Words of a piece: 256 KiB, which take 20 ms at 100 Mbit/s, one way of a wide area."""

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


class BackgroundTransfer:
    """Tensors that go piece by piece, one behind the messages of each round.

    All hosts begin the same piece behind the same message, so that pieces are received in the order
    in which they are sent. Tensors are flat, by rank in the mesh.
    """

    def __init__(
        self, mesh: Mesh, send: Mapping[int, torch.Tensor], receive: Mapping[int, torch.Tensor]
    ) -> None:
        self._mesh, self._send, self._receive = mesh, send, receive
        self._begun = 0
        self._end = max((one.numel() for one in (*send.values(), *receive.values())), default=0)
        self._transfers: list[Transfer] = []

    @property
    def is_begun(self) -> bool:
        """Whether all pieces are on their way."""
        return self._begun >= self._end

    @property
    def is_over(self) -> bool:
        """Whether all is here, and has gone."""
        return self.is_begun and all(one.done for one in self._transfers)

    def go_on(self) -> None:
        """Begins to exchange the next piece."""
        self._begin(PIECE)

    def begin_all(self) -> None:
        """Begins to exchange all that is left."""
        self._begin(self._end)

    def wait(self) -> None:
        """Returns once all is here, and has gone."""
        self._mesh.wait(self._transfers)

    def _begin(self, words: int) -> None:
        part = slice(self._begun, self._begun + words)
        self._begun += words
        for rank, tensor in self._send.items():
            if (piece := tensor[part]).numel():
                self._transfers.append(self._mesh.send(rank, view(piece), lasting=True))
        for rank, tensor in self._receive.items():
            if (piece := tensor[part]).numel():
                self._transfers.append(self._mesh.receive(rank, view(piece)))
