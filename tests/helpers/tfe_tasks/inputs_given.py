"""Ways in which an owner gives a row of records to a session, each with the row as argument."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfe_ext
from tests.helpers.tfe_tasks.players import CONFIG, PROTOCOL
from tests.helpers.tfe_tasks.session import graph, share_values

import tf_encrypted as tfe

OWNER = CONFIG.get_player("owner")
SCALE = 2.0**PROTOCOL.ring.frac_bits
GIVEN: dict[str, Callable[[Any], Any]] = {}
KEPT: list[Any] = []
"""What a test made; as in a script, functions and data live as long as it does."""


def among(ways):
    """Adds a way to give a row; it is called with the row."""

    def add(way):
        ways[way.__name__] = way
        return way

    return add


def give(row, function):
    """Runs a graph in which the owner gives what the function returns."""
    run_graph(row, lambda: share_values(tfe.define_private_input("owner", function)))


def run_graph(row, run, *arguments):
    """Runs a graph that returns shares of the row, or of several."""
    traced = graph(run)
    parts = tf.nest.flatten(traced(*arguments))
    KEPT.append((traced, parts))
    for start in range(0, len(parts), 6):
        opened = sum(part.numpy() for part in parts[start : start + 6 : 2]) / SCALE
        np.testing.assert_allclose(opened, np.broadcast_to(row, opened.shape), atol=2 / SCALE)


@among(GIVEN)
def constant_of_a_lambda(row):
    give(row, lambda: tf.constant(row))


@among(GIVEN)
def array_of_a_closure(row):
    give(row, lambda: tf.convert_to_tensor(row) * 1.0)


@among(GIVEN)
def scalars(row):
    give(row, lambda: tf.stack([tf.constant(value, tf.float64) for value in row.tolist()]))


@among(GIVEN)
def list_of_numbers(row):
    values = row.tolist()
    give(row, lambda: tf.constant(values, tf.float64))


@among(GIVEN)
def tensor_of_the_script(row):
    tensor = tf.constant(row)
    give(row, lambda: tensor)


@among(GIVEN)
def tensor_on_the_owners_device(row):
    with tf.device(OWNER.device_name):
        tensor = tf.constant(row)
    give(row, lambda: tensor)


@among(GIVEN)
def variable_of_the_script(row):
    variable = tf.Variable(row)
    give(row, lambda: variable.read_value())


@among(GIVEN)
def variable_on_the_owners_device(row):
    with tf.device(OWNER.device_name):
        variable = tf.Variable(row)
    give(row, lambda: variable.read_value())


@among(GIVEN)
def default_of_the_inputter(row):
    give(row, lambda values=row: tf.constant(values))


@among(GIVEN)
def partial(row):
    give(row, functools.partial(tf.constant, row))


@among(GIVEN)
def object_that_is_called(row):
    class Reader:
        def __init__(self):
            self.values = row

        def __call__(self):
            return tf.constant(self.values)

    give(row, Reader())


@among(GIVEN)
def nested_function(row):
    give(row, tf.function(lambda: tf.constant(row)))


@among(GIVEN)
def nested_function_of_an_argument(row):
    scaled = tf.function(lambda x: x * 0.5)
    give(row, lambda: scaled(tf.constant(row)) * 2.0)


@among(GIVEN)
def branches(row):
    give(
        row,
        lambda: tf.cond(
            tf.random.uniform([]) < 2.0, lambda: tf.constant(row), lambda: tf.constant(-row)
        ),
    )


@among(GIVEN)
def branches_of_autograph(row):
    @tf.function
    def chosen(x):
        if x > 0:
            return tf.constant(row)
        return tf.constant(-row)

    give(row, lambda: chosen(tf.constant(1)))


@among(GIVEN)
def switch(row):
    give(
        row,
        lambda: tf.switch_case(
            tf.constant(1), [lambda: tf.constant(-row), lambda: tf.constant(row)]
        ),
    )


@among(GIVEN)
def loop(row):
    give(
        row,
        lambda: tf.while_loop(
            lambda i, _: i < 2, lambda i, _: (i + 1, tf.constant(row)), (0, tf.zeros(3, tf.float64))
        )[1],
    )


@among(GIVEN)
def map_over_rows(row):
    give(row, lambda: tf.map_fn(lambda i: tf.constant(row) * i, tf.ones(2, tf.float64)))


@among(GIVEN)
def dataset_of_the_script(row):
    rows = iter(tf.data.Dataset.from_tensors(row).repeat())
    KEPT.append(rows)
    give(row, lambda: next(rows))


@among(GIVEN)
def dataset_on_the_owners_device(row):
    with tf.device(OWNER.device_name):
        rows = iter(tf.data.Dataset.from_tensors(row).repeat())
    KEPT.append(rows)
    give(row, lambda: next(rows))


@among(GIVEN)
def dataset_with_a_map(row):
    with tfe_ext.owned_by("owner"):
        rows = iter(tf.data.Dataset.range(2).map(lambda i: tf.constant(row)).repeat())
    KEPT.append(rows)
    give(row, lambda: next(rows))


@among(GIVEN)
def dataset_with_a_map_of_the_script(row):
    rows = iter(tf.data.Dataset.range(2).map(lambda i: tf.constant(row)).repeat())
    KEPT.append(rows)
    give(row, lambda: next(rows))


@among(GIVEN)
def dataset_with_a_map_on_the_owners_device(row):
    with tf.device(OWNER.device_name):
        rows = iter(tf.data.Dataset.range(2).map(lambda i: tf.constant(row)).repeat())
    KEPT.append(rows)
    give(row, lambda: next(rows))


@among(GIVEN)
def dataset_in_the_inputter(row):
    give(
        row,
        lambda: (
            tf.data.Dataset.range(2)
            .map(lambda i: tf.constant(row) + tf.cast(i, tf.float64) * 0.0)
            .batch(2, drop_remainder=True)
            .get_single_element()
        ),
    )


@among(GIVEN)
def numpy_function(row):
    give(row, lambda: tf.ensure_shape(tf.numpy_function(lambda: row, [], tf.float64), [3]))


@among(GIVEN)
def argument_of_the_function(row):
    def run(x):
        return share_values(tfe.define_private_input("owner", lambda: x))

    run_graph(row, run, row)
    run_graph(row, run, tf.constant(row))


@among(GIVEN)
def argument_of_a_function_in_a_function(row):
    inner = graph(lambda x: share_values(tfe.define_private_input("owner", lambda: x)))
    with tfe_ext.owned_by("owner"):
        x = tf.constant(row)
    run_graph(row, lambda x: inner(x + 0.0 * tf.random.uniform([3], dtype=tf.float64)), x)


@among(GIVEN)
def start_of_a_loop(row):
    def turn(i, x, *_):
        return i + 1, x, *tf.nest.flatten(share_values(given(x)))

    def given(x):
        return tfe.define_private_input("owner", lambda: x)

    def run(x):
        parts = [tf.zeros(3, tf.int64)] * 6
        return tf.while_loop(lambda i, *_: i < 2, turn, (0, x, *parts))[2:]

    run_graph(row, run, tf.constant(row))


@among(GIVEN)
def number_as_argument(row):
    def run(*x):
        values = lambda: tf.stack([tf.constant(value, tf.float64) for value in x])  # noqa: E731
        return share_values(tfe.define_private_input("owner", values))

    run_graph(row, run, *row.tolist())


@among(GIVEN)
def input_in_a_function_of_a_function(row):
    tensor = tf.constant(row)
    inner = graph(
        lambda: share_values(tfe.define_private_input("owner", lambda: (tensor + row) / 2.0))
    )
    run_graph(row, lambda: inner())


@among(GIVEN)
def input_in_a_loop(row):
    def turn(i, *_):
        x = tfe.define_private_input("owner", lambda: tf.constant(row) * tf.cast(i, tf.float64))
        return i + 1, *tf.nest.flatten(share_values(x))

    def run():
        parts = [tf.zeros(3, tf.int64)] * 6
        return tf.while_loop(lambda i, *_: i < 2, turn, (0, *parts))[1:]

    run_graph(row, run)


@among(GIVEN)
def autograph_of_the_whole(row):
    @tf.function
    def run():
        return share_values(tfe.define_private_input("owner", lambda: tf.constant(row)))

    run_graph(row, run)


@among(GIVEN)
def decorated(row):
    @tfe.local_computation("owner")
    def provide():
        return tf.constant(row)

    run_graph(row, lambda: share_values(provide()))


@among(GIVEN)
def computation_with_arguments(row):
    def run():
        given = tfe.define_private_input("owner", lambda: tf.zeros(3, tf.float64))
        moved = tfe.define_local_computation("owner", lambda x, y: x + y, [given, row])
        return share_values(moved)

    run_graph(row, run)


@among(GIVEN)
def output(row):
    def run():
        given = tfe.define_private_input("owner", lambda: tf.constant(row))

        def receive(x):
            tf.debugging.assert_near(x, row, atol=1e-5)

        tfe.define_output("owner", [given], receive)
        return share_values(given)

    run_graph(row, run)


@among(GIVEN)
def several_at_once(row):
    def run():
        both = tfe.define_private_input("owner", lambda: [tf.constant(row), tf.constant(row[None])])
        return [share_values(x) for x in both]

    run_graph(row, run)


@among(GIVEN)
def eager(row):
    x = tfe.define_private_input("owner", lambda: tf.constant(row))
    run_graph(row, lambda: share_values(x + 0.0))


@among(GIVEN)
def eager_function(row):
    function = tf.function(lambda: tf.constant(row))
    KEPT.append(function)
    x = tfe.define_private_input("owner", function)
    run_graph(row, lambda: share_values(x + 0.0))


@among(GIVEN)
def private_variable(row):
    variable = tfe.define_private_variable(tf.constant(row))
    KEPT.append(variable)
    run_graph(row, lambda: share_values(variable + 0.0))
