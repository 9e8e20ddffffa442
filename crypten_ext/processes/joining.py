"""A party that was started by hand meets the others, and they watch each other from then on."""

from __future__ import annotations

import datetime
import socket
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed
from torch._C._distributed_c10d import FileStore, Store, TCPStore
from torch.distributed import DistError

from crypten_ext.processes.introductions import introduce, parties_of
from crypten_ext.processes.liveness import SILENCE, Watch
from extensions.errors import ArgumentError, PartyLostError, PeaError
from extensions.runs.manifest import Manifest

import crypten

_ASKING = 0.2


@contextmanager
def joined(
    rendezvous: str, rank: int, manifest: Manifest, seconds: float, *, silence: float = SILENCE
) -> Iterator[None]:
    """CrypTen is initialised, and the parties watch each other until the block ends.

    Before that they have compared what they are about to run.

    Args:
        rendezvous: tcp://HOST:PORT of party 0, or file://PATH on one machine.
        rank: of this party.
        manifest: of the run, as this party states it.
        seconds: within which all parties must have come.
        silence: seconds without a status after which a party is lost; ten statuses.

    Raises:
        PartyLostError: a party did not come in time, or was lost later; it is named. Once all have
            come, one that falls silent is found, also while CrypTen is initialised.
        DealerLostError: a party found that the dealer was lost.
        ArgumentError: of `introduce`, at every party.
    """
    parties = parties_of(manifest)
    store: Any = _meet(rendezvous, rank, manifest, seconds)
    watch = Watch(
        store,
        has_host=isinstance(store, TCPStore),
        rank=rank,
        world_size=parties,
        interval=silence / 10,
        silence=silence,
        cuts=True,
    )
    with watch:
        with _lent(store.clone(), rank, parties, seconds):
            crypten.init()
        yield


def _meet(rendezvous: str, rank: int, manifest: Manifest, seconds: float) -> Store:
    """Returns the store at which all parties are present, and state one manifest."""
    deadline = time.monotonic() + seconds
    parties = parties_of(manifest)
    store = _store_at(rendezvous, rank, parties, seconds)
    if missing := introduce(store, rank, manifest, deadline):
        others = "".join(f", nor has party {one}" for one in missing[1:])
        raise PartyLostError(
            missing[0],
            f"has not come to {rendezvous} within {seconds:g} s{others}. Start all "
            f"{parties} parties with the same --world-size and --rendezvous.",
        )
    return store


def _store_at(rendezvous: str, rank: int, parties: int, seconds: float) -> Store:
    limit = datetime.timedelta(seconds=seconds)
    place = urllib.parse.urlsplit(rendezvous)
    if place.scheme == "file":
        return FileStore(place.path, parties)
    if place.hostname is None or place.port is None:
        raise ArgumentError("rendezvous", rendezvous, "tcp://HOST:PORT of party 0, or file://PATH")
    if rank and not _answers((place.hostname, place.port), seconds):
        raise PartyLostError(
            0,
            f"does not answer at {rendezvous} after {seconds:g} s. Start it, and see that it can "
            "be reached from here.",
        )
    try:
        return TCPStore(
            place.hostname, place.port, parties, rank == 0, limit, wait_for_workers=False
        )
    except DistError as error:
        did = "listen" if rank == 0 else "meet party 0"
        raise PeaError(f"Party {rank} cannot {did} at {rendezvous}: {error}") from error


def _answers(place: tuple[str, int], seconds: float) -> bool:
    """Whether somebody listens there within some time; torch's store would wait twice as long."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        try:
            socket.create_connection(place, timeout=left).close()
        except OSError:
            time.sleep(_ASKING)
        else:
            return True
    return False


@contextmanager
def _lent(store: Store, rank: int, parties: int, seconds: float) -> Iterator[None]:
    """CrypTen's process group meets at this store, with this limit for each operation.

    CrypTen passes neither on, so that both are lent to torch's function for this block.
    """
    distributed: Any = torch.distributed
    host = distributed.init_process_group
    limit = datetime.timedelta(seconds=seconds)

    def initialise(backend: str, **_: Any) -> None:
        host(backend, store=store, rank=rank, world_size=parties, timeout=limit)

    distributed.init_process_group = initialise
    try:
        yield
    finally:
        distributed.init_process_group = host
