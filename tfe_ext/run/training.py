"""A training run on ABY3's servers, from their files of records to its report."""

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
from tfe_ext.run.host import ABY3Host

import tf_encrypted as tfe

Emit = Callable[[dict[str, Any]], None]


def train(
    config: TrainConfig, files: Sequence[Path], emit: Emit, options: RunOptions
) -> dict[str, Any]:
    """Returns the report of a run whose three servers own the records.

    Args:
        config: resolved settings.
        files: each server's records.
        emit: called after each step, as `extensions.runs.keep.Following` says.
        options: with players in processes of their own, or else with devices of this one.

    Raises:
        PeaError: settings or records that do not fit, or a player that is lost.
    """
    if options.players is None:
        tfe.set_config(local_config())
        return _train(config, files, emit, options)
    with remote_config(options.players) as remote:
        tfe.set_config(remote)
        return _train(config, files, emit, options)


def _train(
    config: TrainConfig, files: Sequence[Path], emit: Emit, options: RunOptions
) -> dict[str, Any]:
    parts = [read_party_file(path) for path in files]
    protocol = ABY3(fixedpoint_config=fixed64(config.frac_bits))
    tfe.set_protocol(protocol)
    seed = config.insecure_seed
    source = SystemSource() if seed is None else InsecureSeededSource(seed)
    return training.run(ABY3Host(protocol, source), config, parts, emit, options)
