"""Runs of a client on players that have their owners' records, in a process that has none."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tfe_ext
from extensions.errors import ArgumentError
from extensions.ring.fixed_point import encode
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions
from tfe_ext.players.addresses import SERVERS
from tfe_ext.run.training import stated, train_far

import tf_encrypted as tfe

BITS = 20


def of_two_steps(players: str, folder: str, **changes: Any) -> dict[str, Any]:
    """Returns the report of a run from local models, with seeded noise, which is kept."""
    checkpoints = CheckpointOptions(folder=Path(folder, "kept"), every=1)
    save = Path(folder, "shares")
    options = RunOptions(players=Path(players), checkpoints=checkpoints, save=save)
    found = stated(Path(players))
    settings: dict[str, Any] = {
        **{"backend": "tfe", "steps": 2, "noise_multiplier": 1.0, "delta": 1e-5},
        **{"init": "local-average", "epsilon_init": 2.0, "init_steps": 2, "insecure_seed": 7},
        **{"momentum": 0.5, "average": 1.0},
        **found.settings,
        **changes,
    }
    config = TrainConfig(**settings).resolved()
    return train_far(config, lambda event: None, options, Path(players), None)


def place(file: str, records: list[list[float]]) -> None:
    """Places records as a client does that has some."""
    with tfe_ext.remote_config(file) as config:
        tfe.set_config(config)
        with tf.device(config.get_player(SERVERS[0]).device_name):
            placed = tf.Variable(encode(np.array(records), BITS))
        assert placed.shape[0] == len(records)


def place_words(file: str, words: list[list[int]]) -> None:
    """Places shares as a client does that has some."""
    with tfe_ext.remote_config(file) as config:
        tfe.set_config(config)
        with tf.device(config.get_player(SERVERS[0]).device_name):
            assert tf.Variable(words, dtype=tf.int64).shape[1] == 4


def refused(file: str, folder: str, changes: dict[str, Any]) -> str:
    """Returns what a client hears whose run an owner refuses."""
    try:
        of_two_steps(file, folder, **changes)
    except ArgumentError as error:
        return str(error)
    raise AssertionError("nobody refused")
