"""Large tensors on their way while rounds of small ones wait: nobody is kept waiting by them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from crypten_ext.transport.tensors import view
from extensions.transport import Mesh
from extensions.transport.end import Transfer

LARGEST, SMALLEST = 1 << 15, 1 << 12
"""Words of a piece: 256 KiB, which take 20 ms at 100 Mbit/s, one way of a wide area, or fewer."""
SHARE = 8
"""Of a tensor whose eighth part is less, so much goes at once: the way is free again sooner."""


def pieces(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Returns the pieces of a flat tensor that go behind one round each."""
    size = min(LARGEST, max(SMALLEST, -(-tensor.numel() // SHARE)))
    return [*torch.split(tensor, size)] if tensor.numel() else []


class Trail:
    """Tensors that go piece by piece, one behind the messages of each round.

    All hosts begin the same piece behind the same message, so that pieces are received in the order
    in which they are sent.

    Args:
        mesh: of the hosts.
        send: by rank in the mesh what it is sent, flat; nobody changes it from now on.
        receive: likewise where what comes from it goes.
    """

    def __init__(
        self, mesh: Mesh, send: Mapping[int, torch.Tensor], receive: Mapping[int, torch.Tensor]
    ) -> None:
        self._mesh = mesh
        self._send = {rank: pieces(tensor) for rank, tensor in send.items()}
        self._receive = {rank: pieces(tensor) for rank, tensor in receive.items()}
        self._transfers: list[Transfer] = []

    @property
    def is_begun(self) -> bool:
        """Whether all pieces are on their way."""
        return not any((*self._send.values(), *self._receive.values()))

    @property
    def is_over(self) -> bool:
        """Whether all is here, and has gone."""
        return self.is_begun and all(one.done for one in self._transfers)

    def go_on(self) -> None:
        """Begins to exchange the next piece of each."""
        for rank, left in self._send.items():
            if left:
                self._transfers.append(self._mesh.send(rank, view(left.pop(0)), lasting=True))
        for rank, left in self._receive.items():
            if left:
                self._transfers.append(self._mesh.receive(rank, view(left.pop(0))))

    def begin_all(self) -> None:
        """Begins to exchange all that is left."""
        while not self.is_begun:
            self.go_on()

    def wait(self) -> None:
        """Returns once all is here, and has gone."""
        self._mesh.wait(self._transfers)
