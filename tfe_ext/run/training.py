"""A training run on ABY3's servers, from their records to its report, and what a step will take.

These are tasks of a process with TensorFlow; `emit` tells its launcher of each step.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from extensions.data.datasets import read_party_file
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.host import StepForecast, share_public
from extensions.protocols.optimizer import State
from extensions.protocols.pea import public_start
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.runs import training
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import Progress
from extensions.runs.options import RunOptions
from tfe_ext.aby3.encoding import fixed64
from tfe_ext.aby3.protocol import ABY3
from tfe_ext.players.client import RemotePlayers, remote_config
from tfe_ext.players.config import local_config
from tfe_ext.run.host import ABY3Host, RemoteHost
from tfe_ext.run.owners import OwnerStatements, RemoteOwners

import tf_encrypted as tfe


def train(
    emit: Progress, config: TrainConfig, files: Sequence[Path], options: RunOptions
) -> dict[str, Any]:
    """Returns the report of a run whose three servers, devices of this process, own the records."""
    tfe.set_config(local_config())
    parts = [read_party_file(path) for path in files]
    return training.run(host_of(config), config, parts, emit, options)


def train_remote(
    emit: Progress, config: TrainConfig, options: RunOptions, players: Path, own_address: str | None
) -> dict[str, Any]:
    """Returns the report of a run on three players, which `owner_statements` asked before."""
    remote, (_, public) = _asked.pop((players, own_address))
    with remote:
        tfe.set_config(remote)
        owners = RemoteOwners(remote)
        return training.run_with(
            host_of(config, RemoteHost),
            config,
            public,
            lambda name: owners.enter(config, name),
            emit,
            options,
            shelves=owners.share_store(),
        )


_asked: dict[tuple[Path, str | None], tuple[RemotePlayers, OwnerStatements]] = {}
"""Players to whom this process is connected, and what they said, for the run that follows."""


def owner_statements(
    emit: Progress, players: Path, own_address: str | None = None
) -> OwnerStatements:
    """Returns what the owners say of the records in their players; `train_remote` follows."""
    with remote_config(players, own_address=own_address) as remote:
        found = RemoteOwners(remote).statements()
    _asked[players, own_address] = remote, found
    return found


def host_of(config: TrainConfig, kind: type[ABY3Host] = ABY3Host) -> ABY3Host:
    """Returns the servers of the present configuration, with new keys."""
    protocol = ABY3(fixedpoint_config=fixed64(config.frac_bits))
    tfe.set_protocol(protocol)
    seed = config.insecure_seed
    source = SystemSource() if seed is None else InsecureSeededSource(seed)
    return kind(protocol, source)


def plan(emit: Progress, config: TrainConfig, step: Step, records: Records) -> StepForecast:
    """Returns what a step takes of a server on the average; of records only sizes are known."""
    features = records.features
    sizes = [(size, features, config.outputs) for size in records.sizes]
    if records.widths:
        (size,) = records.sizes
        sizes = [(size, *each) for each in zip(records.widths, records.outputs, strict=True)]
    nothing = [
        OwnRecords(
            features=np.zeros((size, width), np.int64),
            labels=np.zeros((size, outputs), np.int64),
            frac_bits=config.frac_bits,
        )
        for size, width, outputs in sizes
    ]
    records = replace(records, own=nothing)
    tfe.set_config(local_config())
    host = host_of(config)
    model = share_public(host, public_start(config, features))
    parts = State.begin(host, config, model).parts
    return host.foreseen(step.sampled(host, records), parts, step.public(1))
