"""What the programs of the corpora for ABY3's Keras begin with, and how they are run."""

import importlib
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.errors import PeaError
from tests.helpers.tfe_tasks.session import private
from tfe_ext.keras import DPSGD, BinaryCrossentropy, Sequential, vouch_for

import tf_encrypted as tfe
from tf_encrypted.keras import layers

WIDTH, CLASSES, RECORDS = 4, 4, 6


def records() -> tuple[np.ndarray, np.ndarray]:
    """Returns one owner's features and labels."""
    draws = np.random.default_rng(0)
    return draws.uniform(-0.4, 0.4, (RECORDS, WIDTH)), draws.integers(0, CLASSES, RECORDS)


def owned() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns features and labels by their owners' names."""
    x, y = records()
    return {"server0": x, "server1": -x}, {"server0": y, "server1": y}


def data_sets(*names: str) -> dict[str, Any]:
    """Returns data sets by their owners' names, each on its owner's device."""
    made = {}
    for name in names or ("server0", "server1"):
        with tf.device(tfe.get_config().get_player(name).device_name):
            made[name] = tf.data.Dataset.from_tensor_slices(records()).batch(4)
    return made


def held_out() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns features and labels of nobody on whom a model is trained."""
    x, y = owned()
    return {name: values / 2 for name, values in x.items()}, y


def shared() -> tuple[Any, Any]:
    """Returns private tensors of features and one-hot targets."""
    x, y = records()
    return private(x), private(np.eye(CLASSES)[y])


def first(kind: Any = layers.Dense, *arguments: Any, **options: Any) -> Any:
    """Returns a layer that may be a model's first."""
    return kind(*(arguments or [CLASSES]), batch_input_shape=[1, WIDTH], **options)


def optimizer(**options: Any) -> DPSGD:
    """Returns an optimizer that takes all records in each step."""
    settings = {"l2_norm_clip": 1.0, "noise_multiplier": 1.0, "sample_rate": 1.0}
    return DPSGD(**{"learning_rate": 0.5, **settings, **options})


def model(*stack: Any, kind: Any = Sequential, **options: Any) -> Any:
    """Returns a compiled model; a linear one unless layers are given."""
    network = kind(list(stack or [first()]))
    network.compile(optimizer(**options), BinaryCrossentropy())
    return network


def deep(**options: Any) -> Any:
    """Returns one with a hidden layer."""
    return model(first(activation="relu"), layers.Dense(CLASSES), **options)


def fit(network: Any, data: Any = None, **options: Any) -> None:
    """Makes one step."""
    network.fit(*(data or owned()), **{"steps": 1, "verbose": False, **options})


def vouched(change: Any = None, **options: Any) -> tuple[Any, Any]:
    """Returns private records, changed, as the caller vouches for them."""
    x, y = shared()
    return vouch_for(change(x) if change else x, y, **{"max_feature_norm": 1.0, **options})


def outcomes(module: str, corpus: str = "program") -> dict[str, list[str]]:
    """Returns type and text of the error of each program of a module; empty if there is none."""
    found = {}
    for program in getattr(importlib.import_module(module), corpus):
        try:
            program()
        except PeaError as error:
            found[program.__name__] = [type(error).__name__, str(error)]
        except Exception as error:
            error.add_note(f"The program is {program.__name__}.")
            raise
        else:
            found[program.__name__] = ["", ""]
    return found
