"""The CrypTen backend of `pea train` and `pea party`."""

import datetime
import functools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from crypten_ext.launch import Parties
from crypten_ext.liveness import watch_parties
from crypten_ext.training import train as train_here
from crypten_ext.worker import Context
from extensions.backends import Progress
from extensions.config import TrainConfig
from extensions.data import read_party_file
from extensions.errors import ArgumentError, PeaError

import crypten

NOTICE = (
    "CrypTen's default provider (trusted first party): party 0 deals all correlated randomness and "
    "can reconstruct every secret of the others. Run it only where party 0 is trusted."
)


def train(
    config: TrainConfig,
    files: Sequence[Path],
    progress: Progress,
    *,
    save: Path | None,
    timeout: float,
) -> dict[str, Any]:
    """Returns the report of a run with one process for each party on this machine.

    Each process opens its own file only and writes its own shares only.

    Raises:
        PartyLostError: a party died, stopped answering or ran out of time; it is named.
    """
    started = time.perf_counter()

    def first_party(rank: int, event: dict[str, Any]) -> None:
        if rank == 0:
            progress(event)

    with Parties(config.parties, timeout=timeout) as parties:
        reports = parties.run(
            "crypten_ext.backend:train_task",
            per_party=[{"records": str(path)} for path in files],
            on_event=first_party,
            config=config.to_dict(),
            save=None if save is None else str(save),
        )
    return {**reports[0], "seconds": round(time.perf_counter() - started, 3)}


def train_task(
    context: Context, *, config: dict[str, Any], records: str, save: str | None
) -> dict[str, Any]:
    """Returns one party's report, from inside its process."""
    folder = None if save is None else Path(save)
    return train_here(TrainConfig(**config), Path(records), context.emit, folder)


def train_party(
    config: TrainConfig,
    records: Path,
    *,
    rank: int,
    rendezvous: str,
    progress: Progress,
    save: Path | None,
    join_timeout: float,
) -> dict[str, Any]:
    """Returns this party's report of a run whose parties were started one by one.

    Args:
        config: resolved settings, equal at every party.
        records: this party's file.
        rank: 0..parties - 1.
        rendezvous: tcp://HOST:PORT of party 0, or file://PATH on one machine.
        progress: called after each step.
        save: folder for this party's shares, or None.
        join_timeout: seconds within which all parties must have joined.

    Raises:
        ArgumentError: a rank or rendezvous out of range, or a file that holds no records.
        PartyLostError: another party died or fell silent; within 60 s.
    """
    if not 0 <= rank < config.parties:
        raise ArgumentError("rank", rank, f"in 0..{config.parties - 1}")
    if not rendezvous.startswith(("tcp://", "file://")):
        raise ArgumentError("rendezvous", rendezvous, "tcp://HOST:PORT of party 0, or file://PATH")
    read_party_file(records)
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(config.parties),
        RENDEZVOUS=rendezvous,
        DISTRIBUTED_BACKEND="gloo",
    )
    _join(rendezvous, config.parties, join_timeout)
    with watch_parties():
        return train_here(config, records, progress, save)


def _join(rendezvous: str, parties: int, seconds: float) -> None:
    """CrypTen is initialised, or an error says that parties are missing.

    CrypTen passes no timeout on, so that it is lent to torch's function for this one call.
    """
    host = torch.distributed.init_process_group
    limit = datetime.timedelta(seconds=seconds)
    torch.distributed.init_process_group = functools.partial(host, timeout=limit)
    try:
        crypten.init()
    except torch.distributed.DistError as error:
        raise PeaError(
            f"Not all {parties} parties joined at {rendezvous} within {seconds:g} s. Start the "
            "missing ones with the same --world-size and --rendezvous; party 0 must be reachable."
        ) from error
    finally:
        torch.distributed.init_process_group = host
