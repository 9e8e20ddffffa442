"""A party that was started by hand meets the others, and they watch each other from then on."""

from __future__ import annotations

import datetime
import os
import socket
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch.distributed
from torch._C._distributed_c10d import FileStore, Store, TCPStore
from torch.distributed import DistError

from crypten_ext.local_dealer import ADDRESS, check_loopback
from crypten_ext.processes.liveness import SILENCE, Watch
from crypten_ext.processes.manifest_exchange import compare_manifests, parties_of
from crypten_ext.transport.meeting import connected
from extensions.checks import waitable
from extensions.errors import ArgumentError, PartyLostError, PeaError
from extensions.protocols.agreement import Statement
from extensions.runs.options import Meeting
from extensions.runs.processes.meeting import meeting_place
from extensions.transport import Local
from extensions.transport.key_value_store import StoreLostError
from extensions.transport.reconnecting import RETURN

import crypten

_ASKING = 0.2
TLS_SILENCE = 1.5 * RETURN
"""Seconds without a status after which a party is lost that may lose its connection and be back."""


def together(meeting: Meeting, manifest: Statement) -> AbstractContextManager[None]:
    """Returns a block in which CrypTen is initialised: `joined_by_tls` or `joined`.

    Raises:
        ArgumentError: without a federation, a dealer that is not on this machine.
    """
    if meeting.dealer is not None:
        check_loopback("dealer", meeting.dealer)
        os.environ[ADDRESS] = meeting.dealer
    local = meeting.local(parties_of(manifest))
    if local is not None:
        return joined_by_tls(local, manifest, meeting.join_timeout)
    os.environ.update(
        RANK=str(meeting.rank),
        WORLD_SIZE=str(parties_of(manifest)),
        RENDEZVOUS=meeting.rendezvous,
        DISTRIBUTED_BACKEND="gloo",
    )
    return joined(meeting.rendezvous, meeting.rank, manifest, meeting.join_timeout)


@contextmanager
def joined(
    rendezvous: str, rank: int, manifest: Statement, seconds: float, *, silence: float = SILENCE
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
        ArgumentError: of `compare_manifests`, at every party.
    """
    parties = parties_of(manifest)
    store: Any = _meet(rendezvous, rank, manifest, seconds)
    with _watch(store, rank, parties, silence):
        with _lent(store.clone(), rank, parties, seconds):
            crypten.init()
        yield


@contextmanager
def joined_by_tls(
    local: Local,
    manifest: Statement,
    seconds: float,
    *,
    silence: float = TLS_SILENCE,
    back: float = RETURN,
    over: bytes | None = None,
) -> Iterator[None]:
    """As `joined`, over TLS 1.3 with the other parties of a federation.

    Args:
        local: this party.
        manifest: of the run, as this party states it.
        seconds: within which all parties must have come.
        silence: seconds without a status after which a party is lost; ten statuses.
        back: seconds within which a party that lost a connection is back, or is lost.
        over: a run of the same parties that is over, and whose door may still be open.

    Raises:
        RejectedError: another host and this one refused each other.
        PartyLostError: of `joined`.
        DealerLostError: of `joined`.
        ArgumentError: of `compare_manifests`, at every party; or one who is no party.
    """
    with ExitStack() as until_over:
        place = until_over.enter_context(meeting_place(local, seconds, back))
        rank, board = local.rank, place.board
        assert rank is not None
        try:
            if over is not None and place.run == over:
                raise PartyLostError(0, "has not begun another run")
            missing = compare_manifests(board, rank, manifest, place.deadline)
        except StoreLostError as error:
            raise PartyLostError(0, f"left before all had come: {error}") from error
        if missing:
            raise _absent(local, missing, seconds, place.door.refused)
        with _watch(board, rank, len(local.federation.parties), silence) as watch:
            mesh = until_over.enter_context(connected(place))
            mesh.on_break(watch.look)
            assert watch.connections is not None
            watch.connections.include(mesh.descriptors.values())  # others may have come before it
            crypten.init()
            yield


def _watch(store: Any, rank: int, parties: int, silence: float) -> Watch:
    return Watch(
        store,
        has_host=not isinstance(store, FileStore),
        rank=rank,
        world_size=parties,
        interval=silence / 10,
        silence=silence,
        cuts=True,
    )


def _absent(
    local: Local, missing: Sequence[int], seconds: float, refused: Iterable[str]
) -> PartyLostError:
    """Returns who has not come, and who was refused meanwhile."""
    names = ", nor has ".join(local.federation.parties[one].name for one in missing)
    reason = f"({names}) has not come within {seconds:g} s. " + " ".join(refused)
    return PartyLostError(missing[0], reason)


def _meet(rendezvous: str, rank: int, manifest: Statement, seconds: float) -> Store:
    """Returns the store at which all parties are present, and state one manifest."""
    deadline = time.monotonic() + seconds
    parties = parties_of(manifest)
    store = _store_at(rendezvous, rank, parties, seconds)
    if missing := compare_manifests(store, rank, manifest, deadline):
        others = "".join(f", nor has party {one}" for one in missing[1:])
        raise PartyLostError(
            missing[0],
            f"has not come to {rendezvous} within {seconds:g} s{others}. Start all "
            f"{parties} parties with the same world size and rendezvous.",
        )
    return store


def _store_at(rendezvous: str, rank: int, parties: int, seconds: float) -> Store:
    limit = datetime.timedelta(seconds=waitable(seconds))
    place = urllib.parse.urlsplit(rendezvous)
    if place.scheme == "file":
        return FileStore(place.path, parties)
    if place.hostname is None or place.port is None:
        raise ArgumentError("rendezvous", rendezvous, "tcp://HOST:PORT of party 0, or file://PATH")
    if rank and not _answers((place.hostname, place.port), seconds):
        raise PartyLostError(
            0,
            f"does not answer at {rendezvous} after {seconds:g} s. Start it, and check that this "
            "host can reach it.",
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
    limit = datetime.timedelta(seconds=waitable(seconds))

    def initialise(backend: str, **_: Any) -> None:
        host(backend, store=store, rank=rank, world_size=parties, timeout=limit)

    distributed.init_process_group = initialise
    try:
        yield
    finally:
        distributed.init_process_group = host
