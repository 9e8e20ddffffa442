"""What the parties of test_launch.py do; run as a script, one party that was started by hand."""

import itertools
import os
import signal
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crypten_ext.processes.joining import joined, joined_by_tls
from crypten_ext.processes.launch import Parties
from crypten_ext.processes.liveness import watch_parties
from crypten_ext.processes.worker import Context
from extensions.errors import ArgumentError, PartyLostError
from extensions.protocols.agreement import Statement
from extensions.transport import Federation, Identity, Local

import crypten
from crypten import communicator

NAME = "tests.helpers.party_tasks.launch"

PAUSE = 0.02
"""Seconds between two rounds of those who work without end, and need not work hard."""

kept: dict[str, Any] = {}


def sum_of(value: int) -> int:
    """The sum of all parties' values, by CrypTen's own communicator."""
    return int(communicator.get().all_reduce(torch.tensor([value])))


def add(context: Context, own: int, common: int) -> dict[str, Any]:
    threads = torch.get_num_threads()
    total = sum_of(own)
    return {"rank": context.rank, "own": np.full(3, own + common), "sum": total, "threads": threads}


def remember(context: Context, **new: Any) -> dict[str, Any]:
    kept.update(new)
    return {"pid": os.getpid(), "parent": os.getppid(), **kept}


def count(context: Context, upto: int) -> None:
    for number in range(upto):
        context.emit({"number": number})


def chatter(context: Context, size: int) -> int:
    """Bytes that are no frames go to every standard descriptor."""
    for descriptor in (1, 2):
        os.write(descriptor, b"\xff\x00noise\n" * size)
    print("printed", flush=True)
    return context.rank


def local_addresses(context: Context) -> list[str]:
    """The hexadecimal local addresses of this process's own internet sockets."""
    links = (os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    tables = Path("/proc/self/net/tcp").read_text() + Path("/proc/self/net/tcp6").read_text()
    rows = [line.split() for line in tables.splitlines()]
    return [row[1].rpartition(":")[0] for row in rows if row[9] in inodes]


def raise_in(context: Context, culprit: int) -> None:
    if context.rank == culprit:
        raise ValueError("the step is too long")
    sum_of(1)


def refuse(context: Context, value: float) -> None:
    raise ArgumentError("noise_multiplier", value, "positive", "Give a larger one.")


def end(context: Context, status: int) -> None:
    print("last words", file=sys.stderr, flush=True)
    os._exit(status)


def unpicklable(context: Context) -> Any:
    return lambda: None


def work_forever(context: Context) -> None:
    context.emit({"started": True})
    while True:
        sum_of(1)
        time.sleep(PAUSE)


def sleep_in(context: Context, sleepers: list[int]) -> None:
    time.sleep(3600 if context.rank in sleepers else 0)


def launch_and_wait() -> None:
    """A launcher that prints its parties' process ids while they work without end."""
    with Parties(2) as parties:

        def announce(rank: int, event: dict[str, Any]) -> None:
            if rank == 0:
                print(*parties.pids, flush=True)

        parties.run(f"{NAME}:work_forever", on_event=announce)


def by_hand(course: str, interval: float, silence: float) -> None:
    """One party of a computation that all its peers' launchers started alike."""
    crypten.init()
    rank = communicator.get().get_rank()
    try:
        with watch_parties(interval=interval, silence=silence):
            sum_of(1)
            print("ready", flush=True)
            _follow(course, rank, silence)
    except PartyLostError as lost:
        sys.exit(str(lost))


def joined_by_hand(course: str, silence: float) -> None:
    """The same as `pea party` meets the others; ``stop`` stops rank 1 when all are present."""
    rank, parties = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if course == "join and stop":
        initialise = crypten.init

        def stop() -> None:
            print("present", flush=True)
            if rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            initialise()

        crypten.init = stop
    try:
        manifest = Statement(run={"parties": parties})
        with _meeting(os.environ["RENDEZVOUS"], rank, manifest, silence):
            sum_of(1)
            print("ready", flush=True)
            try:
                _follow(course, rank, silence)
            finally:
                print("tidied up", flush=True)
    except PartyLostError as lost:
        sys.exit(str(lost))


def _meeting(
    rendezvous: str, rank: int, manifest: Statement, silence: float
) -> AbstractContextManager[None]:
    """The parties' block; of tls://PATH, where each rank's key lies beside the federation."""
    scheme, _, place = rendezvous.partition("://")
    if scheme != "tls":
        return joined(rendezvous, rank, manifest, 900.0, silence=silence)
    own = Identity.read(Path(place).parent / f"p{rank}.pem")
    local = Local(own, Federation.read(Path(place)))
    return joined_by_tls(local, manifest, 900.0, silence=silence, back=silence / 3)


def _follow(course: str, rank: int, silence: float) -> None:
    if course == "raise" and rank == 2:
        raise ValueError("of no interest to others")
    if course == "leave early" and rank == 0:
        return
    if course == "leave early":
        for _ in range(40):
            _exchange_with(3 - rank, rank)
            time.sleep(silence / 20)
        return
    if course == "join and count":
        for number in itertools.count():
            assert sum_of(number) == 3 * number
            print(number, flush=True)
            time.sleep(PAUSE)
    while True:
        if course != "join and compute":
            sum_of(1)
        time.sleep(PAUSE)


def _exchange_with(peer: int, rank: int) -> None:
    own = torch.tensor([rank])
    if rank < peer:
        communicator.get().send(own, peer)
        communicator.get().recv(own, peer)
    else:
        communicator.get().recv(own, peer)
        communicator.get().send(own, peer)


if __name__ == "__main__":
    signal.alarm(900)
    if sys.argv[1] == "launch":
        launch_and_wait()
    elif sys.argv[1] == "launch in thread":
        threading.Thread(target=launch_and_wait).start()
    elif sys.argv[1].startswith("join"):
        joined_by_hand(sys.argv[1], float(sys.argv[3]))
    else:
        by_hand(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
