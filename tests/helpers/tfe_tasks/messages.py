"""Tasks about what a user is told: of values without an encoding, and by AutoGraph."""

import logging

import numpy as np
import pytest
import tensorflow as tf

import tfe_ext
from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.session import OWNER, graph, private

import tf_encrypted as tfe
from tf_encrypted.keras.layers import Dense

WRONG = {"NaN": np.nan, "infinity": -np.inf, "too large": 2.0**43}
"""With 20 fractional bits."""


def values_without_an_encoding_are_refused_by_column():
    for value in WRONG.values():
        x = np.ones([3, 5])
        x[1, 2] = x[0, 4] = value
        with refused("input of owner", "data", "columns [2, 4]"):
            private(x)
        with refused("input of this process", "data", "columns [2, 4]"):
            tfe.define_private_variable(x)
        with refused("input of this process", "data", "columns [2, 4]"):
            tfe.define_constant(x)
        with refused("input of this process", "data", "columns [0]"):
            tfe.define_constant(np.array([value]))
        with refused("input of owner", "data", "columns [0]"):
            private(value)


def a_graph_refuses_them_when_it_runs_and_shares_nothing():
    """The owner's value changes; the graph's next run is right again."""
    x = tf.Variable(np.ones([3, 5]))
    shared = tf.Variable(False)

    @graph
    def run():
        given = tfe.define_private_input(OWNER, lambda: tf.identity(x))
        opened = given.reveal().to_native()
        with tf.control_dependencies([opened]):
            shared.assign(True)
        return opened

    for value in WRONG.values():
        x[2, 3].assign(value)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            run()
        text = caught.value.message
        assert f"input of {OWNER}: NaN, infinity or too large for 20 fractional bits" in text
        assert "in columns" in text
        assert "[3]" in text
        assert not shared
        x[2, 3].assign(1.0)
    np.testing.assert_array_equal(run(), np.ones([3, 5]))


def the_largest_values_are_shared():
    largest = np.nextafter(2.0**43, 0) * np.array([1.0, -1.0])
    np.testing.assert_array_equal(private(largest).reveal().to_native(), largest)


class Kept(logging.Handler):
    """What is logged."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())


def autograph_has_nothing_to_say_of_ours():
    """In functions of a user who leaves AutoGraph on, eager or traced, of shares or of models."""
    model = tfe_ext.keras.Sequential([Dense(3, batch_input_shape=[1, 4])])
    kept, logger = Kept(), logging.getLogger("tensorflow")
    logger.addHandler(kept)
    try:

        @tf.function
        def predict():
            x = tfe.define_private_input(OWNER, lambda: tf.constant(np.ones([2, 4])))
            return model(x).reveal().to_native()

        @tf.function
        def primitives():
            x = tfe.define_private_input(OWNER, lambda: tf.constant(np.ones([2, 4])))
            noise = tfe.gaussian_noise((2, 4), 1.0)
            return (tfe.clip_by_norm(x, 1.0) + noise).reveal().to_native()

        predict(), primitives()
    finally:
        logger.removeHandler(kept)
    assert not [line for line in kept.said if "AutoGraph" in line]
