"""Large tensors on their way while rounds of small ones wait: nobody is kept waiting by them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from crypten_ext.transport.tensors import view
from extensions.transport import Mesh
from extensions.transport.end import Transfer

PIECE = 1 << 15
"""Words of a piece: 256 KiB, which take 20 ms at 100 Mbit/s, one way of a wide area."""


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
