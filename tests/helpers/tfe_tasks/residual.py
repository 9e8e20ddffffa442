"""Tasks on models of the host's Keras layers with residual connections."""

import numpy as np
import pytest
import tensorflow as tf

from extensions.errors import UnsupportedLayerError
from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.images import (
    CLASSES,
    assert_made_the_step,
    assert_network_is,
    drawn,
    records,
    trained_of,
)
from tests.helpers.tfe_tasks.session import OWNER, private
from tfe_ext.keras import DPSGD, SGD, BinaryCrossentropy, Residual, Sequential

from tf_encrypted.keras import layers

SHAPE = (4, 4, 2)


def residual(optimizer):
    """A compiled model of images, one of whose layers stands in a residual connection."""
    model = Sequential(
        [
            layers.Conv2D(2, 3, padding="same", activation="relu", batch_input_shape=[1, *SHAPE]),
            Residual([layers.Conv2D(2, 3, padding="same", use_bias=False)]),
            layers.Activation("relu"),
            layers.Flatten(),
            layers.Dense(CLASSES),
        ]
    )
    model.compile(optimizer, BinaryCrossentropy())
    return model, drawn(model, 0.3)


def of_keras(x, weights):
    """What TensorFlow's own operations make of the images; no value comes to the end of a ReLU."""
    kernel, bias, second, last, end = (tf.constant(w, tf.float64) for w in weights)
    images = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME") + tf.reshape(bias, [-1]))
    images = tf.nn.relu(images + tf.nn.conv2d(images, second, 1, "SAME"))
    return (tf.reshape(images, [len(x), -1]) @ last + end).numpy()


def it_adds_what_came_to_what_a_branch_makes_of_it():
    """As TensorFlow does, and so does a model of its configuration."""
    model, weights = residual(SGD(1.0))
    x, _ = records(SHAPE)
    assert_network_is(of_keras(x, weights), model.chain, weights, x)
    again = Sequential.from_config(model.get_config())
    assert again.chain.network == model.chain.network
    assert again.get_config() == model.get_config()
    assert [len(own) for own in again.weights] == [2, 1, 0, 0, 2]
    model.layers[0].trainable = model.layers[-1].trainable = False
    assert trained_of(model.chain) == [False, False, True, False, False]


def called_by_itself_it_is_the_sum_too():
    """By the host's own layers."""
    connection, x = Residual([layers.Dense(3)]), np.array([[0.5, -0.25, 1.0]])
    found = connection(private(x)).reveal().to_native().numpy()
    kernel = connection.layers[0].kernel.reveal().to_native().numpy()
    np.testing.assert_allclose(found, x + x @ kernel, atol=1e-4)
    assert np.abs(x @ kernel).max() > 0.01


def a_step_is_that_of_the_clear_ring():
    """On all records, without noise; norms are rounded up by 2 % at most."""
    x, y = records(SHAPE)
    optimizer = DPSGD(1.0, 1.1, 0.0, 1.0, max_feature_norm=2.0)
    model, weights = residual(optimizer)
    model.fit({OWNER: x}, {OWNER: y}, steps=1, verbose=False)
    assert_made_the_step(model, weights, x, y)


def what_does_not_fit_is_refused():
    """With the name of the layer, or of the connection."""

    def stack(*inner, before="tanh", behind="tanh"):
        first = layers.Dense(4, activation=before, batch_input_shape=[1, 5])
        middle = [layers.Activation(behind)] if behind else []
        return [first, Residual(inner, name="sum"), *middle, layers.Dense(2)]

    fitting = layers.Dense(4)
    for words, layers_ in {
        r"'batch_norm\w*' \(BatchNormalization\) .* mixes": stack(layers.BatchNormalization()),
        "bounds the norms of its inputs": stack(layers.Dense(4), behind=None),
        "an activation must come before it": stack(layers.Dense(4), before=None),
        r"'depthwise\w*'": stack(layers.DepthwiseConv2D(3)),
        "'inner' .* must come before it, which": stack(fitting, layers.Dense(4, name="inner")),
    }.items():
        with pytest.raises(UnsupportedLayerError, match=words):
            Sequential(layers_).compile(SGD(1.0), BinaryCrossentropy())
    with refused("layers of sum", "shape", "records of [4] to [3]"):
        Sequential(stack(layers.Dense(3)))
    with refused("layers", "value", []):
        Residual([])
    nothing = [Residual([layers.Activation("tanh")], batch_input_shape=[1, 4]), layers.Dense(2)]
    with pytest.raises(UnsupportedLayerError, match="must follow a linear layer"):
        Sequential(nothing).compile(SGD(1.0), BinaryCrossentropy())
