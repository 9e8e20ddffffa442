"""A training run on ABY3's servers, from their records to its report."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from extensions.owners.data import read_party_file
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.runs import training
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions
from tfe_ext.aby3.encoding import fixed64
from tfe_ext.aby3.protocol import ABY3
from tfe_ext.players.client import RemotePlayers, remote_config
from tfe_ext.players.config import local_config
from tfe_ext.run.host import ABY3Host, FarHost
from tfe_ext.run.owners import FarOwners, Stated

import tf_encrypted as tfe

Emit = Callable[[dict[str, Any]], None]


def train(
    config: TrainConfig, files: Sequence[Path], emit: Emit, options: RunOptions
) -> dict[str, Any]:
    """Returns the report of a run whose three servers, devices of this process, own the records."""
    tfe.set_config(local_config())
    parts = [read_party_file(path) for path in files]
    return training.run(host_of(config), config, parts, emit, options)


def train_far(
    config: TrainConfig, emit: Emit, options: RunOptions, players: Path, own_address: str | None
) -> dict[str, Any]:
    """Returns the report of a run whose three servers are players, which `stated` asked before."""
    remote, (_, public) = _asked.pop((players, own_address))
    with remote:
        tfe.set_config(remote)
        owners = FarOwners(remote)
        return training.run_with(
            host_of(config, FarHost),
            config,
            public,
            lambda name: owners.enter(config, name),
            emit,
            options,
            shelves=owners.shelves(),
        )


_asked: dict[tuple[Path, str | None], tuple[RemotePlayers, Stated]] = {}
"""Players to whom this process is connected, and what they said, for the run that follows."""


def stated(players: Path, own_address: str | None = None) -> Stated:
    """Returns what the owners say of the records in their players; `train_far` follows."""
    with remote_config(players, own_address=own_address) as remote:
        found = FarOwners(remote).stated()
    _asked[players, own_address] = remote, found
    return found


def host_of(config: TrainConfig, kind: type[ABY3Host] = ABY3Host) -> ABY3Host:
    """Returns the servers of the present configuration, with new keys."""
    protocol = ABY3(fixedpoint_config=fixed64(config.frac_bits))
    tfe.set_protocol(protocol)
    seed = config.insecure_seed
    source = SystemSource() if seed is None else InsecureSeededSource(seed)
    return kind(protocol, source)
