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
from tfe_ext.players.client import remote_config
from tfe_ext.players.config import local_config
from tfe_ext.run.host import ABY3Host, FarHost
from tfe_ext.run.owners import FarOwners, Stated

import tf_encrypted as tfe

Emit = Callable[[dict[str, Any]], None]


def train(
    config: TrainConfig,
    files: Sequence[Path],
    emit: Emit,
    options: RunOptions,
    own_address: str | None = None,
) -> dict[str, Any]:
    """Returns the report of a run whose three servers own the records.

    Args:
        config: resolved settings.
        files: each server's records; none with players, which have their own.
        emit: called after each step, as `extensions.runs.keep.Following` says.
        options: with players in processes of their own, or else with devices of this one.
        own_address: as in `remote_config`.

    Raises:
        PeaError: settings or records that do not fit, or a player that is lost.
    """
    if options.players is None:
        tfe.set_config(local_config())
        parts = [read_party_file(path) for path in files]
        return training.run(_host(config), config, parts, emit, options)
    with remote_config(options.players, own_address=own_address) as remote:
        tfe.set_config(remote)
        owners = FarOwners(remote)
        outlines = owners.stated().outlines
        return training.run_with(
            _host(config, FarHost),
            config,
            outlines,
            lambda name: owners.enter(config, name),
            emit,
            options,
            shelves=owners.shelves(),
        )


def stated(players: Path, own_address: str | None = None) -> Stated:
    """Returns what the owners say of the records in their players.

    Raises:
        PeaError: of `FarOwners.stated`, or a player that is lost.
    """
    with remote_config(players, own_address=own_address) as remote:
        return FarOwners(remote).stated()


def _host(config: TrainConfig, kind: type[ABY3Host] = ABY3Host) -> ABY3Host:
    """Returns the servers of the present configuration, with new keys."""
    protocol = ABY3(fixedpoint_config=fixed64(config.frac_bits))
    tfe.set_protocol(protocol)
    seed = config.insecure_seed
    source = SystemSource() if seed is None else InsecureSeededSource(seed)
    return kind(protocol, source)
