"""Every function of CrypTen's communicator, once in each party; the same over any transport."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.distributed import ReduceOp

from crypten_ext import transport
from crypten_ext.processes.worker import Context
from crypten_ext.transport.group import DIRECT_WORDS
from extensions.transport.kernel import carried

import crypten
from crypten import communicator

SIZES = [(), (1,), (5,), (5, 5), (5, 5, 5), (1000,), (0,), (200, 300)]
OPS = [ReduceOp.SUM, ReduceOp.BXOR, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.PRODUCT]


def of(rank: int, size: tuple[int, ...]) -> torch.Tensor:
    """Returns a party's words of this size."""
    count = int(np.prod(size))
    return (torch.arange(count).reshape(size) + 1) * (rank + 3) ** 5


def everything(context: Context) -> dict[str, Any]:
    """Returns what each function gave this party."""
    world = communicator.get()
    rank, parties = world.get_rank(), world.get_world_size()
    found: dict[str, Any] = {"who": (rank, parties, world.get_name())}
    after, before = (rank + 1) % parties, (rank - 1) % parties
    for size in SIZES:
        own = of(rank, size)
        if rank == 0:
            world.send(own, after)
        found[f"recv {size}"] = world.recv(torch.empty_like(own), before)
        if rank:
            world.send(own, after)
        into = torch.empty_like(own)
        waiting = [world.isend(own, after), world.irecv(into, before)]
        for one in waiting:
            one.wait()
        found[f"irecv {size}"] = into
        for op in OPS:
            found[f"all_reduce {size} {op}"] = world.all_reduce(own, op=op)
        found[f"all_gather {size}"] = world.all_gather(own)
        for one in range(parties):
            found[f"reduce {size} {one}"] = world.reduce(own, one)
            found[f"gather {size} {one}"] = world.gather(own, one)
            found[f"broadcast {size} {one}"] = world.broadcast(own.clone(), one)
            given = [of(each + 7 * rank, size) for each in range(parties)]
            found[f"scatter {size} {one}"] = world.scatter(given, one, size=size)
    many = [of(rank, size) for size in SIZES]
    found["batched"] = world.all_reduce(many, batched=True)
    found["batched reduce"] = world.reduce(many, 1, batched=True)
    found["batched broadcast"] = world.broadcast([each.clone() for each in many], 1, batched=True)
    world.barrier()
    matrix = of(rank, (6, 4)).T
    found["transposed"] = world.all_gather(matrix)
    found["objects"] = [
        world.broadcast_obj(each if rank == one else None, one)
        for each in objects()
        for one in range(parties)
    ]
    found["sent objects"] = []
    for each in objects():
        if rank == 0:
            world.send_obj(each, after)
        found["sent objects"].append(world.recv_obj(before))
        if rank:
            world.send_obj(each, after)
    return found


def objects() -> list[Any]:
    """Values of the kinds that CrypTen sends."""
    model = torch.nn.Linear(3, 2)
    for parameter in model.parameters():
        parameter.data.fill_(1.0)
    request = {"function": "square", "device": "cpu", "args": (torch.Size([2, 3]),)}
    return [
        {"a": 1, "b": -(2**70)},
        torch.tensor(1),
        torch.ones(2, 3).T,
        request,
        model,
        "text",
        2.5,
    ]


def counts(context: Context, words: int, times: int) -> dict[str, Any]:
    """Returns rounds and bytes of sums: CrypTen's, those of the mesh, and the kernel's."""
    world, mesh = communicator.get(), transport.current()
    assert mesh is not None
    crypten.cfg.communicator.verbose = True
    world.reset_communication_stats()
    wire, payload, rounds = carried(mesh.descriptors.values()), mesh.payload, mesh.rounds
    own = torch.full((words,), context.rank + 1)
    for _ in range(times):
        (result,) = world.all_reduce([own], batched=True)
        assert bool((result == sum(range(1, context.world_size + 1))).all())
    after = carried(mesh.descriptors.values())
    crypten.cfg.communicator.verbose = False
    return {
        "rounds": world.comm_rounds,
        "mesh": mesh.rounds - rounds,
        "sent": mesh.payload[0] - payload[0],
        "received": mesh.payload[1] - payload[1],
        "wire": after[0] - wire[0],
    }


def together(context: Context, number: int) -> int:
    """Returns the rounds of so many large sums that are begun at once."""
    mesh = transport.current()
    assert mesh is not None
    before = mesh.rounds
    many = [of(context.rank, (DIRECT_WORDS,)) for _ in range(number)]
    communicator.get().all_reduce(many, batched=True)
    return mesh.rounds - before


def stray(context: Context) -> str:
    """Party 0 sends bytes that are no object; returns what the other makes of them."""
    links = communicator.get().main_group
    if context.rank == 0:
        links.send_bytes(b"cos\nsystem\n(S'echo hello world'\ntR.", 1)
    if context.rank != 1:
        return ""
    try:
        communicator.get().recv_obj(0)
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
    return "an object"


def lost(context: Context) -> None:
    """Party 1 ends; the others wait for it."""
    import os

    if context.rank == 1:
        os._exit(3)
    communicator.get().all_reduce(torch.ones(5))


def again(context: Context) -> str:
    """CrypTen ends and begins anew over the same connections: by another name, and by its own."""
    before, names = communicator.get().get_name(), []
    for name in (f"init_{context.rank}", before):
        crypten.uninit()
        crypten.init(party_name=name)
        communicator.get().all_reduce(torch.ones(1))
        names.append(communicator.get().get_name())
    assert names[1] == before
    return str(names[0])
