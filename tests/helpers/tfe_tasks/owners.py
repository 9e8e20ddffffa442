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
from tests.helpers.refused import fields_of
from tfe_ext.keras import DPSGD, BinaryCrossentropy, Checkpoints, Sequential
from tfe_ext.keras.iterates import store
from tfe_ext.players.addresses import SERVERS
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.run.training import owner_statements, train_remote

import tf_encrypted as tfe
from tf_encrypted.keras.layers import Dense

BITS = 20
WIDTHS = (32, 8)


def of_two_steps(players: str, folder: str, **changes: Any) -> dict[str, Any]:
    """Returns the report of a run from local models, with seeded noise, which is kept."""
    checkpoints = CheckpointOptions(folder=Path(folder, "kept"), every=1)
    save = Path(folder, "shares")
    options = RunOptions(players=Path(players), checkpoints=checkpoints, save=save)
    said, _ = owner_statements(lambda event: None, Path(players))
    settings: dict[str, Any] = {
        **{"backend": "tfe", "steps": 2, "noise_multiplier": 1.0, "delta": 1e-5},
        **{"init": "local-average", "epsilon_init": 2.0, "init_steps": 2, "insecure_seed": 7},
        **{"momentum": 0.5, "average": 1.0},
        **said,
        **changes,
    }
    config = TrainConfig(**settings).resolved()
    return train_remote(lambda event: None, config, options, Path(players), None)


def kept_by_a_script(file: str, folder: str) -> None:
    """A script's players keep the shares of a model, which are not those that it dealt."""
    with tfe_ext.remote_config(file) as config:
        model, checkpoints = _scripted(config, folder, resume=False)
        model.set_weights(weights())
        share_anew(model)
        assert checkpoints.begin() is None
        checkpoints.after(0)
        model.announce_opening()
        model.save_shares(Path(folder, "saved"))


def released_by_a_script(file: str, folder: str) -> None:
    """They give them back to its next model, whose words the script gets, shared anew, once."""
    with tfe_ext.remote_config(file) as config:
        model, checkpoints = _scripted(config, folder, resume=True)
        assert checkpoints.begin() == 0
        assert checkpoints.resumed == (0,)
        assert model.opened == 1, "which the players were told before it is"
        share_anew(model)
        opened = checkpoints.release()
        model.set_weights([np.zeros(WIDTHS), np.zeros(WIDTHS[1])])
        model.load_shares(Path(folder, "saved"))
        share_anew(model)
        loaded = model.get_weights()
    for found, value in zip(loaded, weights(), strict=True):
        np.testing.assert_array_equal(found, value)
    for name, value in zip(("weight_0", "bias_0"), weights(), strict=True):
        np.testing.assert_array_equal(opened[name].T, value)


def weights() -> list[Any]:
    """Those of the script's model, all different."""
    count = WIDTHS[0] * WIDTHS[1]
    return [np.arange(count).reshape(WIDTHS) / 2**10, np.arange(WIDTHS[1]) / 2**5]


def _scripted(config: Any, folder: str, resume: bool) -> tuple[Sequential, Checkpoints]:
    tfe.set_config(config)
    tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config="f20"))
    model = Sequential([Dense(WIDTHS[1], batch_input_shape=[1, WIDTHS[0]])])
    model.compile(DPSGD(0.5, 1.0, 1.0, 0.3), BinaryCrossentropy())
    return model, Checkpoints(model, folder, steps=1, every=1, resume=resume)


def share_anew(model: Sequential) -> None:
    """The model's shares are others of the same values, that the servers made."""

    def run() -> None:
        shares = [share_of(model.ring, kept, "kept").additive3() for kept in model.chain.flat]
        store(model.ring, model.chain.held, shares)

    tf.function(run, autograph=False)()


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
        return fields_of(error)
    raise AssertionError("nobody refused")
