"""Openings of few words: every party sends its share to every other, and all add up.

CrypTen opens by gloo's ring, in which each party waits for its neighbours several times. Where
latency decides, one direct exchange takes a fraction of that time: a single one-way latency, since
every party has told the others beforehand that it has room for their next words.

A party sees each other's share of what is opened; in the ring it sees sums of several, and parts of
its neighbour's alone. That tells nothing more, since zero sharing and fresh tuples make shares
uniform but for their sum.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import distributed
from torch.distributed import ReduceOp

from crypten.communicator import DistributedCommunicator
from crypten.communicator.communicator import _logging

DIRECT_BYTES = 1 << 17
"""Above, a ring's smaller traffic outweighs its waiting: three parties send half as much again."""
_TAG = 0x50EA
"""No other messages between the parties of a group have it."""

_COMBINE: dict[Any, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    ReduceOp.SUM: torch.add,
    ReduceOp.BXOR: torch.bitwise_xor,
}

_host_all_reduce: Any = DistributedCommunicator.all_reduce


@_logging
def all_reduce(self: Any, input: Any, op: Any = ReduceOp.SUM, batched: bool = False) -> Any:
    """Returns CrypTen's own result; sums and xors of at most `DIRECT_BYTES` are exchanged directly.

    **Cost.** One round and, by CrypTen's count, the same bytes; each party sends its words to each
    of the others, where a ring of n sends 2 (n - 1) / n times their number.
    """
    tensors = list(input) if batched else [input]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    kinds = {tensor.dtype for tensor in tensors}
    if op not in _COMBINE or size > DIRECT_BYTES or len(kinds) != 1:
        return _host_all_reduce.__wrapped__(self, input, op=op, batched=batched)
    results = _exchange(self, [tensor.detach() for tensor in tensors], _COMBINE[op])
    return results if batched else results[0]


def _exchange(
    communicator: Any,
    tensors: Sequence[torch.Tensor],
    combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> list[torch.Tensor]:
    own = torch.cat([tensor.reshape(-1) for tensor in tensors])
    rank, world = communicator.get_rank(), communicator.get_world_size()
    if communicator not in _mailboxes:
        others = [other for other in range(world) if other != rank]
        _mailboxes[communicator] = [_Mailbox(other, communicator.main_group) for other in others]
    boxes = _mailboxes[communicator]
    arriving = [box.next() for box in boxes]
    sending = [distributed.isend(own, box.sender, box.group, _TAG) for box in boxes]
    for work in (*(work for work, _ in arriving), *sending):
        work.wait()
    theirs = [room[: own.nbytes].view(own.dtype) for _, room in arriving]
    parts = torch.split(reduce(combine, theirs, own), [tensor.numel() for tensor in tensors])
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


class _Mailbox:
    """Room for the next words of another party, of which that party knows.

    gloo sends at once what a receiver waits for already; else it asks first, and a round takes a
    latency more. Fewer words than there is room for may come.
    """

    def __init__(self, sender: int, group: Any) -> None:
        self.sender = sender
        self.group = group
        self._next = self._receive()

    def next(self) -> tuple[Any, torch.Tensor]:
        """Returns what to wait for, and where the words then are; makes room for those after."""
        now, self._next = self._next, self._receive()
        return now

    def _receive(self) -> tuple[Any, torch.Tensor]:
        room = torch.empty(DIRECT_BYTES, dtype=torch.uint8)
        return distributed.irecv(room, self.sender, self.group, _TAG), room


_mailboxes: WeakKeyDictionary[Any, list[_Mailbox]] = WeakKeyDictionary()


def install() -> None:
    """CrypTen opens few words directly from here on; all parties must do the same."""
    DistributedCommunicator.all_reduce = all_reduce


def remove() -> None:
    """CrypTen opens by itself again."""
    DistributedCommunicator.all_reduce = _host_all_reduce
