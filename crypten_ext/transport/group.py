"""torch's process group over a mesh of authenticated connections: what CrypTen communicates by.

Everything is sent and received in the calling thread, sends first. What all parties tell all others
takes one latency. A sum of more than `DIRECT_WORDS` words takes two, which reports count as one
round, and sends each word 2 (n - 1) / n times, where a direct exchange sends it n - 1 times. It
goes in two halves, so that no connection is idle for the second latency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce as fold
from itertools import groupby
from typing import Any

import torch
import torch.distributed as dist

from crypten_ext.transport.tensors import BackgroundTransfer, Combine, combination, room, view
from extensions.transport import Mesh
from extensions.transport.endpoint import Transfer

BACKEND = "pea"
"""Its name in torch, and the scheme of the place where its processes have met."""
DIRECT_WORDS = 1 << 14
_HALVES = 2
"""Of a sum of more. Smaller pieces cost more of the processor than they gain of the latency."""

_mesh: list[Mesh] = []


_torch: Any = dist


def register() -> None:
    """Torch knows process groups of this kind from here on; a second call changes nothing."""
    if BACKEND.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])
        _torch.register_rendezvous_handler(BACKEND, _met)


def use(mesh: Mesh | None) -> None:
    """Process groups that are made from here on use this mesh; None: there is none."""
    _mesh[:] = [] if mesh is None else [mesh]


def current() -> Mesh | None:
    """Returns the mesh of this process, None without one."""
    return _mesh[0] if _mesh else None


def _met(url: str, **_: Any) -> Iterator[tuple[Any, int, int]]:
    """Yields torch's rendezvous: the processes have met, so that each keeps a store of its own."""
    mesh = _mesh[0]
    yield _torch.HashStore(), mesh.rank, len(mesh.others) + 1


def _create(options: Any, _: Any) -> Links:
    ranks = options.global_ranks_in_group or range(options.group_size)
    return Links(_mesh[0], list(ranks), options.group_rank, options.group_id)


_ProcessGroup: Any = dist.ProcessGroup
_Work: Any = dist.Work


class Links(_ProcessGroup):
    """A process group of some or all hosts of a mesh.

    `ranks` are the members' ranks in the mesh, `rank` is that of this process in this group. Every
    result is that of torch's own groups, for tensors of the CPU.
    """

    def __init__(self, mesh: Mesh, ranks: Sequence[int], rank: int, name: str) -> None:
        super().__init__(rank, len(ranks))
        self._name = name
        self.mesh, self.ranks = mesh, ranks
        self._rank = rank
        self._others = [one for one in range(len(ranks)) if one != rank]
        self._queued: list[tuple[torch.Tensor, Combine]] = []
        self._trails: list[BackgroundTransfer] = []
        self._jobs: list[Callable[[], None]] = []

    @property
    def group_name(self) -> str:
        """The name that torch gave it."""
        return self._name

    def getBackendName(self) -> str:
        """Returns the name of its kind."""
        return BACKEND

    def send(self, tensors: list[torch.Tensor], to: int, tag: int = 0) -> Pending:
        """Begins to send a tensor, which stays as it is until that is done."""
        self._run()
        (tensor,) = tensors
        return Pending(self.mesh, [self.mesh.send(self.ranks[to], view(tensor), tag)])

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int = 0) -> Pending:
        """Begins to receive a tensor of this size."""
        self._run()
        (tensor,) = tensors
        into, finish = room(tensor)
        transfer = self.mesh.receive(self.ranks[source], view(into), tag)
        return Pending(self.mesh, [transfer], finish)

    def allreduce(self, tensors: list[torch.Tensor], options: Any = None) -> Pending:
        """Returns when the tensor is the combination of all; one round, or two.

        Several that are begun without waiting go together, once somebody waits.
        """
        (tensor,) = tensors
        self._queued.append((tensor, combination(options)))
        if not getattr(options, "asyncOp", False):
            self._run()
            return Pending(self.mesh)
        return Pending(self.mesh, finish=self._run)

    def reduce(self, tensors: list[torch.Tensor], options: Any) -> Pending:
        """Returns when the tensor at the root is the combination of all; one round."""
        (tensor,) = tensors
        combine = combination(options)
        parts = self._to_root(tensor, options.rootRank)
        if parts is not None:
            tensor.copy_(fold(combine, parts))
        return Pending(self.mesh)

    def broadcast(self, tensors: list[torch.Tensor], options: Any) -> Pending:
        """Returns when the tensor is that of the root; one round."""
        (tensor,) = tensors
        if options.rootRank == self._rank:
            self._exchange(dict.fromkeys(self._others, tensor), {})
        else:
            self._exchange({}, {options.rootRank: tensor})
        return Pending(self.mesh)

    def gather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], options: Any
    ) -> Pending:
        """Returns when the root has the tensors of all; one round."""
        parts = self._to_root(inputs[0], options.rootRank)
        if parts is not None:
            for into, part in zip(outputs[0], parts, strict=True):
                into.copy_(part)
        return Pending(self.mesh)

    def scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], options: Any
    ) -> Pending:
        """Returns when each has its tensor of the root's; one round."""
        (into,) = outputs
        if options.rootRank == self._rank:
            self._exchange({one: inputs[0][one] for one in self._others}, {})
            into.copy_(inputs[0][self._rank])
        else:
            self._exchange({}, {options.rootRank: into})
        return Pending(self.mesh)

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], options: Any = None
    ) -> Pending:
        """Returns when all have the tensors of all; one round."""
        (own,) = inputs
        outputs[0][self._rank].copy_(own)
        into = {one: outputs[0][one] for one in self._others}
        self._exchange(dict.fromkeys(self._others, own), into)
        return Pending(self.mesh)

    def barrier(self, opts: Any = None) -> Pending:
        """Returns when all have come here; one round."""
        self._all_to_all(torch.empty(0, dtype=torch.uint8))
        return Pending(self.mesh)

    def combined(self, words: torch.Tensor, combine: Combine) -> torch.Tensor:
        """Returns the combination of all parties' words; one round, or two.

        As `allreduce`, without what torch does for it and without a copy: nobody changes the words,
        flat and contiguous, from now on. `combine` does not depend on the order of parties.
        """
        if words.numel() > DIRECT_WORDS and self._others:
            return self._combined_in_two_steps(words, combine)
        found = self._all_to_all(words, lasting=True)
        return fold(combine, (found.get(one, words) for one in range(len(self.ranks))))

    def trail(
        self, send: Mapping[int, torch.Tensor], receive: Mapping[int, torch.Tensor]
    ) -> BackgroundTransfer:
        """Returns tensors on their way, a piece of which goes behind each tensor told to all.

        They are flat, by rank, and nobody changes those sent from now on. It takes no round: pieces
        travel while the words of a round are waited for.
        """
        by_rank = ({self.ranks[r]: tensor for r, tensor in own.items()} for own in (send, receive))
        found = BackgroundTransfer(self.mesh, *by_rank)
        self._trails.append(found)
        return found

    def meanwhile(self, job: Callable[[], None]) -> None:
        """Has a job done while the words of the next round travel that all tell all."""
        self._jobs.append(job)

    def send_bytes(self, message: bytes, to: int) -> None:
        """Sends a message of any length."""
        self.mesh.wait([self.mesh.send(self.ranks[to], memoryview(message))])

    def receive_bytes(self, source: int, limit: int) -> bytes:
        """Returns a message of at most `limit` bytes."""
        return self.mesh.receive_any(self.ranks[source], limit)

    def _run(self) -> None:
        """What is queued is combined, all of one kind at once."""
        queued, self._queued = self._queued, []
        for (_, combine), group in groupby(queued, lambda one: (one[0].dtype, one[1])):
            tensors = [tensor.detach() for tensor, _ in group]
            words = torch.cat([one.reshape(-1) for one in tensors])
            parts = torch.split(self.combined(words, combine), [one.numel() for one in tensors])
            for tensor, part in zip(tensors, parts, strict=True):
                tensor.copy_(part.reshape(tensor.shape))

    def _all_to_all(self, own: torch.Tensor, *, lasting: bool = False) -> dict[int, torch.Tensor]:
        """Returns the others' tensors of the same size."""
        found = {one: torch.empty_like(own) for one in self._others}
        own_to_all = dict.fromkeys(self._others, own)
        self._exchange(own_to_all, found, lasting=lasting, behind=self._go_on)
        return found

    def _go_on(self) -> None:
        """Begins the next piece of what trails, and does the jobs."""
        self._trails = [trail for trail in self._trails if not trail.is_begun]
        for trail in self._trails:
            trail.go_on()
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job()

    def _to_root(self, own: torch.Tensor, root: int) -> list[torch.Tensor] | None:
        """Returns the tensors of all, only at the root."""
        if root != self._rank:
            self._exchange({root: own}, {})
            return None
        found = {one: torch.empty_like(own) for one in self._others}
        self._exchange({}, found)
        return [found.get(one, own) for one in range(len(self.ranks))]

    def _combined_in_two_steps(self, words: torch.Tensor, combine: Combine) -> torch.Tensor:
        """Each combines one part of each half, and tells the others what it is.

        What comes of the first half is on its way while the second one still comes.
        """
        self._run()
        rounds, number = self.mesh.rounds, len(self.ranks)
        result = torch.empty_like(words)
        halves = [torch.tensor_split(half, number) for half in torch.chunk(words, _HALVES)]
        theirs = [[torch.empty_like(parts[self._rank]) for _ in parts] for parts in halves]
        first = [self._begin(*both) for both in zip(halves, theirs, strict=True)]
        self._go_on()
        last: list[Transfer] = []
        for parts, found, begun, half in zip(
            halves, theirs, first, torch.chunk(result, _HALVES), strict=True
        ):
            self.mesh.wait(begun)
            found[self._rank] = parts[self._rank]
            mine, rooms = combine(*found[:2]), torch.tensor_split(half, number)
            for each in found[2:]:
                combine(mine, each, out=mine)
            rooms[self._rank].copy_(mine)
            last += self._begin([mine] * number, rooms)
        self.mesh.wait(last)
        self.mesh.rounds = rounds + 2
        return result

    def _begin(
        self, send: Sequence[torch.Tensor], receive: Sequence[torch.Tensor]
    ) -> list[Transfer]:
        """Begins to send lasting tensors and to receive others, by rank; none of one's own."""
        mesh, others = self.mesh, self._others
        sent = [mesh.send(self.ranks[one], view(send[one]), lasting=True) for one in others]
        return sent + [mesh.receive(self.ranks[one], view(receive[one])) for one in others]

    def _exchange(
        self,
        send: Mapping[int, torch.Tensor],
        receive: Mapping[int, torch.Tensor],
        *,
        lasting: bool = False,
        behind: Callable[[], None] = lambda: None,
    ) -> None:
        self._run()
        rooms = {one: room(tensor) for one, tensor in receive.items()}
        self.mesh.exchange(
            {self.ranks[one]: view(tensor) for one, tensor in send.items()},
            {self.ranks[one]: view(into) for one, (into, _) in rooms.items()},
            lasting=lasting,
            behind=behind,
        )
        for _, finish in rooms.values():
            finish()


class Pending(_Work):
    """What torch waits for."""

    def __init__(
        self,
        mesh: Mesh,
        transfers: Sequence[Transfer] = (),
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._mesh, self._transfers, self._finish = mesh, transfers, finish
        self._is_over = False

    def is_completed(self) -> bool:
        """Returns whether it is done."""
        return all(one.done for one in self._transfers)

    def wait(self, timeout: Any = None) -> bool:
        """Returns once it is done."""
        if not self._is_over:
            self._is_over = True
            self._mesh.wait(self._transfers)
            self._finish()
        return True
