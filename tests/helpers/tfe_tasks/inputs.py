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
from tfe_ext.aby3 import player_constants
from tfe_ext.keras import DPSGD, BinaryCrossentropy, Sequential
from tfe_ext.keras.checkpoints import Checkpoints
from tfe_ext.ring.inputs import draw_noise
from tfe_ext.ring.private_tensors import tensor_of

import tf_encrypted as tfe
from tf_encrypted.keras import layers

TRAINED: dict[str, Callable[[Any], Any]] = {}
REFUSED: dict[str, Callable[[Any], Any]] = {}
REFUSED_LATE: dict[str, Callable[[Any], Any]] = {}
"""Ways that are noticed when a function with the row was traced, and so sent, already."""


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


def fit_on(dataset):
    model, *_ = model_on(np.zeros((1, 3)))
    model.fit({"owner": dataset}, None, steps=2, verbose=False)
    KEPT.append(dataset)


def pairs_of(row):
    return np.stack([row, np.zeros(3)]), np.arange(2)


@among(TRAINED)
def fit_from_a_dataset(row):
    fit_on(tf.data.Dataset.from_tensor_slices(pairs_of(row)).shuffle(2).batch(2))


@among(TRAINED)
def fit_from_a_dataset_on_the_owners_device(row):
    with tf.device(OWNER.device_name):
        dataset = tf.data.Dataset.from_tensor_slices(pairs_of(row))
    fit_on(dataset)


@among(TRAINED)
def fit_from_a_dataset_with_a_map(row):
    fit_on(tf.data.Dataset.range(2).map(lambda i: (tf.constant(row), i)))


@among(TRAINED)
def fit_from_a_dataset_with_a_map_on_the_owners_device(row):
    with tf.device(OWNER.device_name):
        dataset = tf.data.Dataset.range(2).map(lambda i: (tf.constant(row), i)).batch(2)
    fit_on(dataset)


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


def taking():
    """A function that gives its argument for the owner."""
    return graph(lambda x: share_values(tfe.define_private_input("owner", lambda: x)))


@among(REFUSED)
def constant_as_argument_of_a_function(row):
    inner = taking()
    return graph(lambda: inner(tf.constant(row)))()


@among(REFUSED)
def array_as_argument_of_a_function(row):
    inner = taking()
    return graph(lambda: inner(row))()


@among(REFUSED)
def constant_as_argument_two_functions_up(row):
    inner = taking()
    middle = graph(lambda x, i: inner(x * i))
    return graph(lambda: middle(tf.constant(row), tf.constant(1.0, tf.float64)))()


@among(REFUSED)
def constant_as_argument_in_a_branch(row):
    inner = taking()

    def run(yes):
        return tf.cond(yes, lambda: inner(tf.constant(row)), lambda: inner(tf.constant(-row)))

    return graph(run)(tf.constant(True))


@among(REFUSED)
def start_of_a_loop(row):
    def turn(i, x):
        tfe.define_private_input("owner", lambda: x)
        return i + 1, x

    return graph(lambda: tf.while_loop(lambda i, _: i < 2, turn, (0, tf.constant(row))))()


@among(REFUSED)
def start_of_a_loop_that_changes_it(row):
    def turn(i, x, y):
        tfe.define_private_input("owner", lambda: y)
        return i + 1, x + 1.0, x

    start = tf.zeros(3, tf.float64)
    return graph(lambda x: tf.while_loop(lambda i, *_: i < 3, turn, (0, tf.constant(row), x)))(
        start
    )


@among(REFUSED)
def elements_of_a_map(row):
    def one(x):
        return share_values(tfe.define_private_input("owner", lambda: x))

    types = [[tf.int64] * 2] * 3
    return graph(lambda: tf.map_fn(one, tf.constant(row[None]), fn_output_signature=types))()


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


@among(REFUSED_LATE)
def what_a_function_returns(row):
    inner = graph(lambda i: (tf.constant(row), i))

    def run():
        x, _ = inner(tf.constant(1))
        return share_values(tfe.define_private_input("owner", lambda: x))

    return graph(run)()


@among(REFUSED_LATE)
def turn_of_a_loop(row):
    def turn(i, x):
        tfe.define_private_input("owner", lambda: x)
        return i + 1, tf.constant(row)

    return graph(lambda x: tf.while_loop(lambda i, _: i < 2, turn, (0, x)))(tf.zeros(3, tf.float64))


@among(REFUSED_LATE)
def what_a_loop_returns(row):
    def run():
        _, x = tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x), (0, tf.constant(row)))
        return share_values(tfe.define_private_input("owner", lambda: x))

    return graph(run)()


@among(REFUSED_LATE)
def what_a_branch_returns(row):
    def run(yes):
        x = tf.cond(yes, lambda: tf.constant(row), lambda: tf.zeros(3, tf.float64))
        return share_values(tfe.define_private_input("owner", lambda: x))

    return graph(run)(tf.constant(True))


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
    """Each way that would send a row is refused; those that are noticed late have another row."""
    for name, way in REFUSED.items():
        _refuse(name, way, np.array(rows[name]))
    for name, way in REFUSED_LATE.items():
        _refuse(name, way, np.arange(1.0, 4.0))


def _refuse(name, way, row):
    try:
        with pytest.raises(InsecureError, match="owned_by|the player.s values|private variable"):
            way(row)
    except BaseException as error:
        error.add_note(name)
        raise


def careless(row):
    """A constant of the owner's device, but in a function that is not known to be the owner's."""

    def run():
        with tf.device(OWNER.device_name):
            return tf.constant(row, tf.float64) * 2.0

    traced = graph(run)
    KEPT.append((traced, traced()))


def constants_go_with_their_function():
    gc.collect()
    before = set(player_constants._handles)
    traced = graph(lambda: share_values(tfe.define_private_input("owner", lambda: tf.ones(3))))
    traced()
    (name,) = set(player_constants._handles) - before
    (handle,) = player_constants._handles[name]
    assert handle.backing_device == OWNER.device_name
    read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
    np.testing.assert_array_equal(read, np.ones(3))
    del traced
    gc.collect()
    assert set(player_constants._handles) == before
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
                for name, (_, own, *_) in rows.items():
                    sought = [own, round(own * SCALE) / SCALE]
                    if np.isin([sought, np.negative(sought)], [*numbers.flat, *scaled.flat]).any():
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
        (drawn,) = draw_noise(servers, SystemSource(), [2.0**45], [(4,)])
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
