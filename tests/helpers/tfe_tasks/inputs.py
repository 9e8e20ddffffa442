"""What is looked for in memory: rows of records by the way they were given, keys, shares, noise."""

import gc
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from extensions.errors import InsecureError
from extensions.privacy.randomness import SystemSource
from tests.helpers.tfe_tasks.inputs_given import GIVEN, KEPT, OWNER, SCALE, among
from tests.helpers.tfe_tasks.players import CONFIG, PROTOCOL
from tests.helpers.tfe_tasks.session import graph, share_values
from tfe_ext.aby3 import own_constants
from tfe_ext.keras import DPSGD, BinaryCrossentropy, Sequential
from tfe_ext.keras.checkpoints import Checkpoints
from tfe_ext.ring import noise
from tfe_ext.ring.private_tensors import tensor_of

import tf_encrypted as tfe
from tf_encrypted.keras import layers

TRAINED: dict[str, Callable[[Any], Any]] = {}
REFUSED: dict[str, Callable[[Any], Any]] = {}


def model_on(records):
    """A linear model of three features, and the records of the owner that it is trained on."""
    model = Sequential([layers.Dense(1, batch_input_shape=[1, 3], kernel_initializer="zeros")])
    optimizer = DPSGD(1.0, 1.0, 1.0, sample_rate=0.5, max_feature_norm=16.0)
    model.compile(optimizer, BinaryCrossentropy())
    KEPT.append(model)
    return model, {"owner": records}, {"owner": np.arange(len(records)) % 2}


@among(TRAINED)
def fit(row):
    model, x, y = model_on(np.stack([row, np.zeros(3)]))
    model.fit(x, y, steps=2, verbose=False)


@among(TRAINED)
def evaluate(row):
    model, x, y = model_on(np.stack([row, np.zeros(3)]))
    model.evaluate(x, y)


@among(TRAINED)
def predict(row):
    model, *_ = model_on(np.zeros((1, 3)))
    model.predict(tfe.define_private_input("owner", lambda: tf.constant(row[None])))


@among(TRAINED)
def set_weights(row):
    model, *_ = model_on(np.zeros((1, 3)))
    model.set_weights([row[:, None], np.zeros(1)])


@among(TRAINED)
def initialize_from(row):
    model, *_ = model_on(np.zeros((1, 3)))
    model.initialize_from(
        {"owner": [row[:, None], np.zeros(1)]}, {"owner": 1}, strategy="local-average"
    )


@among(TRAINED)
def checkpoints(row):
    model, *_ = model_on(np.zeros((1, 3)))
    model.set_weights([row[:, None], np.zeros(1)])
    with tempfile.TemporaryDirectory() as folder:
        run = Checkpoints(model, folder, steps=1, every=1)
        assert run.begin() is None
        run.after(0)
        model.save_shares(folder)
        model.load_shares(folder)
        run.release()


@among(REFUSED)
def constant_outside(row):
    def run():
        x = tf.constant(row)
        return share_values(tfe.define_private_input("owner", lambda: x))

    return graph(run)()


@among(REFUSED)
def mixed_with_a_constant_outside(row):
    def run(i):
        x = tf.gather(tf.constant(row[None]), i)
        return share_values(tfe.define_private_input("owner", lambda: x))

    return graph(run)(tf.constant(0))


@among(REFUSED)
def constant_outside_of_a_loop(row):
    def run():
        x = tf.constant(row)

        def turn(i):
            tfe.define_private_input("owner", lambda: x)
            return (i + 1,)

        return tf.while_loop(lambda i: i < 2, turn, (0,))

    return graph(run)()


@among(REFUSED)
def constant_as_argument(row):
    def run():
        return share_values(tfe.define_local_computation("owner", lambda x: x, [tf.constant(row)]))

    return graph(run)()


@among(REFUSED)
def device_of_another_player(row):
    def elsewhere():
        with tf.device(CONFIG.get_player("server0").device_name):
            return tf.constant(row)

    return graph(lambda: share_values(tfe.define_private_input("owner", elsewhere)))()


@among(REFUSED)
def function_on_the_device_of_another_player(row):
    @tf.function
    def elsewhere():
        with tf.device(CONFIG.get_player("server0").device_name):
            return tf.constant(row)

    return tfe.define_private_input("owner", elsewhere)


@among(REFUSED)
def variable_in_a_function(row):
    return graph(lambda: share_values(tfe.define_private_variable(row)))()


@among(REFUSED)
def variable_of_a_constant_in_a_function(row):
    return graph(lambda: share_values(tfe.define_private_variable(tf.constant(row))))()


def names():
    """The names of all ways."""
    return {"given": [*GIVEN], "trained": [*TRAINED], "refused": [*REFUSED]}


def run_given(rows, file):
    """Gives a row in each way, and one that is in the owner's file only."""
    for name, way in GIVEN.items():
        way(np.array(rows[name]))

    def read():
        return tf.ensure_shape(tf.io.decode_raw(tf.io.read_file(file), tf.float64), [3])

    with tf.device(OWNER.device_name):
        tensor = read()
    for function in (read, lambda: tensor):
        traced = graph(lambda f=function: share_values(tfe.define_private_input("owner", f)))
        KEPT.append((traced, traced()))


def run_trained(rows):
    """Gives a row in each way that training has."""
    for name, way in TRAINED.items():
        way(np.array(rows[name]))


def run_refused(rows):
    """Each way that would send a row is refused."""
    for name, way in REFUSED.items():
        with pytest.raises(InsecureError):
            way(np.array(rows[name]))


def careless(row):
    """A constant of the owner's device, but in a function that is not known to be the owner's."""

    def run():
        with tf.device(OWNER.device_name):
            return tf.constant(row, tf.float64) * 2.0

    traced = graph(run)
    KEPT.append((traced, traced()))


def constants_go_with_their_function():
    gc.collect()
    before = set(own_constants._handles)
    traced = graph(lambda: share_values(tfe.define_private_input("owner", lambda: tf.ones(3))))
    traced()
    (name,) = set(own_constants._handles) - before
    (handle,) = own_constants._handles[name]
    assert handle.backing_device == OWNER.device_name
    read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
    np.testing.assert_array_equal(read, np.ones(3))
    del traced
    gc.collect()
    assert set(own_constants._handles) == before
    with pytest.raises(tf.errors.OpError, match="does not exist|uninitialized|destroyed"):
        tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32).numpy()


def in_definitions(rows):
    """Returns which function's definition has which row, for all that TensorFlow has now."""
    known = context.context()
    return sorted(
        f"{name} in {function}"
        for function in known.list_function_names()
        for name in _rows_in(known.get_function_def(function), rows)
    )


def _rows_in(definition, rows):
    for node in definition.node_def:
        if node.op == "Const":
            values = tf.make_ndarray(node.attr["value"].tensor)
            if values.dtype.kind in "fiu":
                numbers = values.astype(np.float64)
                scaled = numbers / SCALE
                for name, row in rows.items():
                    if np.isin([row[1], -row[1]], [*numbers.flat, *scaled.flat]).any():
                        yield name


def secrets_of_servers():
    """Returns keys, shares and noise by name: 32 bytes, and the players that may have them."""
    ring = PROTOCOL.ring
    servers, streams = ring.servers, [*ring.servers.pairwise]
    tfe.define_private_input("owner", lambda: tf.zeros(1))  # the owner has a stream from now on
    streams += [servers.private[player.device_name] for player in CONFIG.players]
    secrets = {
        f"key {i}": (next(iter(stream._keys.values())), stream.holders)
        for i, stream in enumerate(streams)
    }

    @graph
    def draw():
        (drawn,) = noise.draw(servers, SystemSource(), [2.0**45], [(4,)])
        return drawn.parts, share_values(tensor_of(PROTOCOL, drawn))

    x = tfe.define_private_input("owner", lambda: tf.random.uniform([4]))
    square = graph(lambda: share_values(x * x))
    summands, shares = draw(), square()
    KEPT.append((draw, summands, x, square, shares))
    for i, device in enumerate(servers.devices):
        secrets[f"noise {i}"] = (summands[0][i], [device])
        secrets[f"share {i}"] = (x.unwrapped[i][0].value, [device, servers.devices[i - 1]])
    names = {player.device_name: player.name for player in CONFIG.players}
    return {
        name: [value.numpy().tobytes().hex(), [names[device] for device in holders]]
        for name, (value, holders) in secrets.items()
    }
