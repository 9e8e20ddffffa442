"""Tasks on convolutional models of the host's Keras layers."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
import torch

from extensions.errors import UnsupportedLayerError
from extensions.layers.activations import relu, tanh
from extensions.layers.passes import forward
from extensions.protocols.dpsgd import dpsgd_step
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from tests.helpers.reference_dpsgd import piecewise
from tests.helpers.tfe_tasks.session import OWNER, PROTOCOL
from tfe_ext.keras import DPSGD, SGD, BinaryCrossentropy, Sequential
from tfe_ext.keras.iterates import from_matrix, kernel_of, matrix_of, to_matrix
from tfe_ext.ring.private_tensors import share_of

from tf_encrypted.keras import layers

F, ULP, ROWS, CLASSES = 20, 2.0**-20, 9, 3
SHAPE = (7, 6, 2)


def trained_of(chain):
    """Whether a step changes each of the chain's variables."""
    stages = zip(chain.variables, chain.network.trained, strict=True)
    pairs = [zip(pair, (own.has_weight, own.has_bias), strict=True) for pair, own in stages]
    return [trained for pair in pairs for variable, trained in pair if variable is not None]


def convolutional(optimizer, frozen=()):
    """A compiled model of images, with biases that are not zero; layers may be frozen."""
    model = Sequential(
        [
            layers.Conv2D(4, 3, strides=2, padding="same", batch_input_shape=[1, *SHAPE]),
            layers.Activation("tanh"),
            layers.MaxPooling2D((2, 1), strides=1, padding="same"),
            layers.Conv2D(3, 2, activation="relu", use_bias=False),
            layers.AveragePooling2D((2, 1)),
            layers.Flatten(),
            layers.Dense(CLASSES),
        ]
    )
    for place in frozen:
        model.layers[place].trainable = False
    model.compile(optimizer, BinaryCrossentropy())
    return model, drawn(model, 0.4)


def drawn(model, spread):
    """The weights that a model gets, biases too; they fit the ring."""
    draws = np.random.default_rng(4)
    shapes = [variable.shape.as_list() for variable in model.chain.flat]
    weights = [np.rint(draws.normal(0, spread, shape) * 2**12) / 2**12 for shape in shapes]
    model.set_weights(weights)
    return weights


def records(shape=SHAPE):
    """Images of norm 2, and labels."""
    draws = np.random.default_rng(5)
    x = draws.standard_normal((ROWS, *shape))
    x *= 2 / np.linalg.norm(x.reshape(ROWS, -1), axis=1).reshape(-1, 1, 1, 1)
    return np.trunc(x * 2**12) / 2**12, draws.integers(0, CLASSES, ROWS)


def of_keras(x, weights):
    """What TensorFlow's own operations make of the images, with these activations."""
    (kernel, bias, second, last, end), images = (
        (tf.constant(w, tf.float32) for w in weights),
        tf.constant(x, tf.float32),
    )
    images = tf.nn.conv2d(images, kernel, 2, "SAME") + tf.reshape(bias, [-1])
    images = piecewise(torch.tensor(images.numpy()), tanh()).numpy()
    images = tf.nn.max_pool2d(images, (2, 1), 1, "SAME")
    images = tf.nn.conv2d(images, second, 1, "VALID")
    images = piecewise(torch.tensor(images.numpy()), relu()).numpy()
    images = tf.nn.avg_pool2d(images, (2, 1), (2, 1), "VALID")
    return (tf.reshape(images, [len(x), -1]) @ last + end).numpy()


def a_model_of_images_is_that_of_keras():
    """Its network computes what TensorFlow does, and kernels are matrices on shares too."""
    model, weights = convolutional(SGD(1.0))
    chain, ring = model.chain, PROTOCOL.ring
    assert chain.network.guarded
    x, _ = records()
    assert_network_is(of_keras(x, weights), chain, weights, x)
    for weight, (kernel, _) in zip((weights[0], weights[2]), chain.variables, strict=False):
        share = kernel_share(kernel)
        matrix = matrix_of(ring, share)
        np.testing.assert_array_equal(value(matrix), encode(to_matrix(weight), F))
        back = kernel_of(ring, matrix, weight.shape)
        np.testing.assert_array_equal(value(back), encode(weight, F))
        np.testing.assert_array_equal(from_matrix(to_matrix(weight), weight.shape), weight)


def assert_network_is(wanted, chain, weights, x):
    """A model's network returns these logits, in the clear."""
    trace = forward(ClearRing(F), chain.network, pairs_of(weights), encode(x.reshape(ROWS, -1), F))
    np.testing.assert_allclose(decode(trace.logits, F), wanted, rtol=0, atol=1e-4)


def pairs_of(weights):
    """Weights and biases of three layers as the network has them; the second has no bias."""
    first, bias, second, last, end = (encode(to_matrix(weight), F) for weight in weights)
    return [(first, bias), (second, None), (last, end)]


def kernel_share(variable):
    """The share that a variable holds."""
    return share_of(PROTOCOL.ring, variable)


def value(share):
    """The integers of a share."""
    return sum(part.numpy() for part in share.additive3().parts if part is not None)


def a_step_on_images_is_that_of_the_clear_ring(frozen=(), rounds=49):
    """One step on all records, without noise; norms are rounded up by 2 % at most."""
    x, y = records()
    optimizer = DPSGD(1.0, 1.1, 0.0, 1.0, max_feature_norm=2.0)
    model, weights = convolutional(optimizer, frozen)
    model.fit({OWNER: x}, {OWNER: y}, steps=1, verbose=False)
    chain = model.chain
    plan = optimizer.step(chain.network, frac_bits=F, rows=ROWS, expected=ROWS).plan
    assert {"frozen" if frozen else "materialised", "linear"} <= set(plan.ways)
    assert_made_the_step(model, weights, x, y)
    cost = model.step_cost()
    assert cost.rounds == rounds
    parts = model.training_shares()
    other, _ = convolutional(DPSGD(1.0, 1.1, 0.0, 1.0, max_feature_norm=2.0))
    other.resume(parts)
    for own, same in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(own, same)
    assert [part["weight_0"].shape for part in parts] == [(4, 18)] * 3
    again = Sequential.from_config(model.get_config())
    assert again.chain.network == chain.network


def assert_made_the_step(model, weights, x, y):
    """A model has made the first step from these weights, as the clear ring makes it."""
    moved = [before - after for before, after in zip(weights, model.get_weights(), strict=True)]
    chain, optimizer, ring = model.chain, model.optimizer, ClearRing(F, rounding="floor")
    plan = optimizer.step(chain.network, frac_bits=F, rows=ROWS, expected=ROWS).plan
    trace = forward(ring, chain.network, pairs_of(weights), encode(x.reshape(ROWS, -1), F))
    gradients = trace.backward(encode(np.eye(CLASSES)[y], F), None, plan.guard_shifts)
    updates = dpsgd_step(ring, gradients, plan, optimizer.source)
    wanted = [decode(part, F) for pair in updates for part in pair if part is not None]
    trained = list(itertools.compress(moved, trained_of(chain)))
    assert [bool(own.any()) for own in moved] == trained_of(chain)
    for own, want in zip(trained, wanted, strict=True):
        length = np.linalg.norm(want)
        assert length > 0.01
        assert np.linalg.norm(to_matrix(own) - want) < 0.02 * length


def a_step_of_the_last_layer_is_that_of_the_clear_ring():
    """What is frozen stays as it is, bit for bit, and nothing goes back through it."""
    a_step_on_images_is_that_of_the_clear_ring(frozen=(0, 3), rounds=37)


def images_that_do_not_fit_are_refused():
    """With the layer's name, and before anything is shared."""

    def first(kind=layers.Conv2D, *arguments, **options):
        return kind(*(arguments or (2, 3)), batch_input_shape=[1, 6, 6, 1], **options)

    dense = layers.Dense(2)
    stacks = {
        "channels first; use channels_last": [first(data_format="channels_first"), dense],
        "the host uses only one": [first(strides=(2, 1)), dense],
        "must come before it, behind images": [first(), layers.Activation("tanh"), dense],
        "bounds the norms of its inputs": [first(), layers.Flatten(), dense],
        "needs images before it": [
            layers.Flatten(batch_input_shape=[1, 6, 6, 1]),
            layers.MaxPooling2D(2),
        ],
        "leaves padding out": [
            first(layers.AveragePooling2D, 4, padding="same"),
            layers.Flatten(),
            dense,
        ],
        "mixes the records": [first(), layers.BatchNormalization()],
        "the last layer with weights is Dense": [first(), layers.Flatten()],
        "no per-example norm": [first(layers.DepthwiseConv2D, 3), dense],
    }
    for words, stack in stacks.items():
        with pytest.raises(UnsupportedLayerError, match=words):
            Sequential(stack).compile(SGD(1.0), BinaryCrossentropy())
