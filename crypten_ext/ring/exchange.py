"""Openings: whatever must be opened now, in one round.

Of few words every party sends its share to every other, and all add up.

CrypTen opens by gloo's ring, in which each party waits for its neighbours several times. Where
latency decides, one direct exchange takes a fraction of that time.

A party sees each other's share of what is opened; in the ring it sees sums of several, and only
parts of its neighbour's. That tells nothing more, since zero sharing and fresh tuples make shares
uniform but for their sum.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from timeit import default_timer
from typing import Any

import torch
from torch import distributed
from torch.distributed import ReduceOp

from crypten_ext.ring.forecast import WORD, active

from crypten import communicator
from crypten.communicator import DistributedCommunicator

DIRECT_BYTES = 1 << 17
"""Above, a ring's smaller traffic outweighs its waiting: three parties send half as much again."""

Combine = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_COMBINE: dict[Any, Combine] = {
    ReduceOp.SUM: torch.add,
    ReduceOp.BXOR: torch.bitwise_xor,
}

_ROWS = 1
"""Tag of messages that travel beside an opening."""

_host_all_reduce: Any = DistributedCommunicator.all_reduce


def all_reduce(
    self: Any, input: Any, op: Any = ReduceOp.SUM, batched: bool = False, lasting: bool = False
) -> Any:
    """Returns CrypTen's own result; sums and xors are exchanged directly.

    Our own transport exchanges those of any size, gloo only those of at most `DIRECT_BYTES`. A
    `lasting` tensor is changed by nobody afterwards, so that it needs no copy.

    Cost:
        One round; each party sends its words to each of the others, where a ring of n sends
        2 (n - 1) / n times their number. CrypTen's own count tells neither, but each word once. It
        counts these rounds whether or not `communicator.verbose` asks for it: looking that up takes
        as long as counting a hundred of them.
    """
    if self.get_world_size() < 2:
        return input
    begun = default_timer()
    tensors = [tensor.detach() for tensor in (input if batched else [input])]
    results = _all_reduced(self, tensors, op, lasting=lasting)
    self._log_communication(2 * sum(tensor.numel() for tensor in tensors))
    self._log_communication_time(default_timer() - begun)
    return results if batched else results[0]


def _all_reduced(
    self: Any, tensors: Sequence[torch.Tensor], op: Any, *, lasting: bool
) -> list[torch.Tensor]:
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    kinds = {tensor.dtype for tensor in tensors}
    combined = getattr(self.main_group, "combined", None)
    if op not in _COMBINE or len(kinds) != 1 or (size > DIRECT_BYTES and combined is None):
        return list(_host_all_reduce.__wrapped__(self, tensors, op=op, batched=True))
    parts = [tensor.reshape(-1) for tensor in tensors]
    own = parts[0] if lasting and len(parts) == 1 else torch.cat(parts)
    words = (combined or partial(_exchanged, self))(own, _COMBINE[op])
    parts = list(torch.split(words, [tensor.numel() for tensor in tensors]))
    return [part.reshape(each.shape) for part, each in zip(parts, tensors, strict=True)]


def _exchanged(communicator: Any, own: torch.Tensor, combine: Combine) -> torch.Tensor:
    """Returns the combination of all parties' words over gloo."""
    rank, world = communicator.get_rank(), communicator.get_world_size()
    theirs = {other: torch.empty_like(own) for other in range(world) if other != rank}
    for work in begun(dict.fromkeys(theirs, own), theirs, communicator.main_group):
        work.wait()
    return reduce(combine, theirs.values(), own)


def begun(
    send: Mapping[int, torch.Tensor], receive: Mapping[int, torch.Tensor], group: Any, tag: int = 0
) -> list[Any]:
    """Returns messages on their way, by rank; receivers are ready first, or senders had to ask."""
    arriving = [distributed.irecv(into, other, group, tag) for other, into in receive.items()]
    return arriving + [distributed.isend(own, other, group, tag) for other, own in send.items()]


def open_sum(shares: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the values of additively shared words; one round for all of them."""
    return _open(shares, ReduceOp.SUM)


def open_xor(shares: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the values of XOR-shared words; one round for all of them."""
    return _open(shares, ReduceOp.BXOR)


def _open(shares: Sequence[torch.Tensor], op: Any) -> list[torch.Tensor]:
    flat = torch.cat([share.reshape(-1) for share in shares])
    mode, world = active(), communicator.get()
    if mode is not None:
        words = mode.opened(flat)
    else:
        how = {"lasting": True} if type(world).all_reduce is all_reduce else {}
        words = world.all_reduce(flat, op=op, **how)
    pieces = torch.split(words, [share.numel() for share in shares])
    return [piece.reshape(share.shape) for piece, share in zip(pieces, shares, strict=True)]


def is_leader() -> bool:
    """Whether this party is the one that adds public constants to its share."""
    return bool(communicator.get().get_rank() == 0)


def meanwhile(job: Callable[[], None]) -> None:
    """Has a job done while the next opening is waited for; now, where the transport cannot."""
    group = communicator.get().main_group
    if active() is None and hasattr(group, "meanwhile"):
        group.meanwhile(job)
    else:
        job()


class OwnersRows:
    """Rows of all parties on their way from their owners, each of which sends its own to all.

    `rows` is the public number of each party's; nobody changes `own`, (rows, columns), afterwards.

    Cost:
        No round beside an opening; each party sends its rows to every other.
    """

    def __init__(self, rows: Sequence[int], own: torch.Tensor) -> None:
        world = communicator.get()
        rank, self._group = world.get_rank(), world.main_group
        self._all = torch.empty((sum(rows), own.shape[1]), dtype=torch.int64)
        blocks = [*torch.split(self._all, list(rows))]
        blocks[rank].copy_(own)
        self._own = blocks.pop(rank)
        others = [other for other in range(len(rows)) if other != rank]
        self._theirs = dict(zip(others, blocks, strict=True))
        self._trail: Any = None
        self._waiting: list[Any] | None = None

    def trail(self) -> None:
        """They go piece by piece behind what is opened from now on, where the transport can."""
        if active() is None and hasattr(self._group, "trail"):
            self._count()
            own = self._own.reshape(-1)
            theirs = {other: block.reshape(-1) for other, block in self._theirs.items()}
            self._trail = self._group.trail(dict.fromkeys(theirs, own), theirs)

    def begin(self) -> None:
        """All that is left is on its way."""
        if self._trail is not None:
            self._trail.begin_all()
        elif self._waiting is None:
            self._count()
            self._waiting = [] if active() is not None else self._begun()

    def _begun(self) -> list[Any]:
        arriving = {other: block for other, block in self._theirs.items() if len(block)}
        leaving = dict.fromkeys(self._theirs if len(self._own) else (), self._own)
        return begun(leaving, arriving, self._group, _ROWS)

    def _count(self) -> None:
        own = len(self._theirs) * self._own.numel()
        size = WORD * (own + sum(block.numel() for block in self._theirs.values()))
        mode = active()
        if mode is not None:
            mode.rows += size
        else:
            communicator.get().comm_bytes += size

    @property
    def is_here(self) -> bool:
        """Whether nobody need wait for them, as far as this is known."""
        return self._trail is not None and self._trail.is_over

    def all(self) -> torch.Tensor:
        """Returns the rows of all parties in rank order, once they are here."""
        self.begin()
        for work in [self._trail] if self._waiting is None else self._waiting:
            work.wait()
        return self._all


def install() -> None:
    """CrypTen opens few words directly from here on; all parties must do the same."""
    DistributedCommunicator.all_reduce = all_reduce


def remove() -> None:
    """CrypTen opens by itself again."""
    DistributedCommunicator.all_reduce = _host_all_reduce
