"""Programs for ABY3's Keras whose epsilon would be false: every one of them must be refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tf_keras import callbacks
from tf_keras.optimizers import schedules

from tests.helpers.programs import Corpus, alone, as_it_is
from tests.helpers.programs.keras_script import (
    CLASSES,
    WIDTH,
    data_sets,
    deep,
    first,
    fit,
    model,
    optimizer,
    owned,
    records,
    shared,
    vouched,
)
from tfe_ext.keras import BinaryCrossentropy, Sequential, vouch_for

import tf_encrypted as tfe
from tf_encrypted.keras import layers, losses, optimizers
from tf_encrypted.keras.models import sequential as host

program, after_a_step = Corpus(), Corpus()
"""A step is traced for seconds; what must be refused after one is a corpus of its own."""


def on_features(change: Any) -> None:
    """One step on private tensors that something was done to, and that nobody vouches for."""
    x, y = shared()
    fit(model(), (change(x), y))


# Records are private tensors that nobody vouches for.

program.each(
    "features",
    on_features,
    shared_by_the_script=lambda x: x,
    scaled=lambda x: x * 20,
    centred=lambda x: x - x.reduce_sum(axis=0, keepdims=True) * 0.2,
    with_everybodys_sum=lambda x: x + x.reduce_sum(axis=0, keepdims=True),
    mixed_by_a_public_matrix=lambda x: tfe.matmul(tfe.define_constant(np.ones((6, 6))), x),
    with_rows_merged=lambda x: tfe.transpose(tfe.reshape(x, [WIDTH, -1])),
    of_one_record_in_all_rows=lambda x: tfe.concat([x[:1]] * 6, axis=0),
    clipped_under_encryption=lambda x: tfe.clip_by_norm(x, 1.0),
    that_another_model_made=lambda x: model(first()).call(x),
    from_a_variable=lambda _: tfe.define_private_variable(records()[0]),
    that_are_public=lambda _: tfe.define_constant(records()[0]),
)

# Records are not those of owners, or not as they should be.


def on_data(data: Callable[[], Any]) -> None:
    """One step on this data."""
    fit(model(), data())


def on_owned(x: Any = as_it_is, y: Any = as_it_is) -> Callable[[], Any]:
    """Returns owners' data of which each owner's features or targets are changed."""

    def data() -> Any:
        features, labels = owned()
        return (
            {name: x(values) for name, values in features.items()},
            {name: y(values) for name, values in labels.items()},
        )

    return data


program.each(
    "features",
    on_data,
    doubled_in_number=lambda: tuple(tfe.concat([t, t], axis=0) for t in shared()),
    shared_within_a_dictionary=lambda: tuple({"server0": t} for t in shared()),
    of_tensorflow=lambda: tuple(map(tf.constant, records())),
    without_owner=records,
    beyond_their_bound=on_owned(x=lambda x: 20 * x),
    that_are_no_numbers=on_owned(x=lambda x: np.where(x == x.max(), np.nan, x)),
    of_another_width=on_owned(x=lambda x: x[:, :2]),
    of_nobody=on_owned(x=lambda x: x[:0]),
    of_a_data_set_that_repeats=lambda: (
        {name: one.repeat(2) for name, one in data_sets().items()},
        None,
    ),
    of_a_data_set_on_anothers_device=lambda: (
        dict(zip(["server1", "server0"], data_sets().values(), strict=True)),
        None,
    ),
    of_a_data_set_with_other_targets=lambda: (data_sets(), owned()[1]),
    of_a_data_set_without_owner=lambda: (data_sets()["server0"], None),
)
program.each(
    "targets",
    on_data,
    beyond_their_range=on_owned(y=lambda y: 30.0 * np.eye(CLASSES)[y]),
    of_other_owners=lambda: (owned()[0], {f"server{2 - i}": owned()[1]["server0"] for i in (0, 1)}),
    shared_beside_owned_features=lambda: (owned()[0], shared()[1]),
)


@program
def features_of_a_data_set_beyond_their_bound() -> None:
    fit(model(max_feature_norm=0.1), (data_sets(), None))


# What was vouched for is used as something else.

program.each(
    "vouched",
    on_data,
    parts_of_two_calls=lambda: (vouched()[0], vouched()[1]),
    parts_in_the_wrong_order=lambda: vouched()[::-1],
    features_with_plain_targets=lambda: (vouched()[0], shared()[1]),
    targets_with_owned_features=lambda: (owned()[0], vouched()[1]),
    features_as_targets=lambda: [vouched()[0]] * 2,
    records_of_another_width=lambda: vouched(lambda x: x[:, :2]),
)
program.each(
    "vouched",
    alone,
    records_of_a_sample=lambda: fit(model(sample_rate=0.5), vouched()),
    records_of_a_larger_bound=lambda: fit(
        model(max_feature_norm=1.0), vouched(max_feature_norm=2.0)
    ),
    records_without_a_bound=lambda: vouched(max_feature_norm=float("inf")),
    records_that_do_not_match=lambda: vouched(lambda x: x[:-1]),
    records_in_the_clear=lambda: vouch_for(*records(), max_feature_norm=1.0),
)


# The model has parts of its own.


class Mixing(layers.Dense):
    """Mixes records before the product."""

    def call(self, inputs: Any) -> Any:
        return super().call(inputs + inputs.reduce_sum(axis=0, keepdims=True))


class Doubling(layers.Dense):
    """Doubles the gradient."""

    def backward(self, d_y: Any) -> Any:
        return super().backward(d_y * 2)


class Around(layers.ReLU):
    """Does something around its call."""

    def __call__(self, inputs: Any, *arguments: Any, **options: Any) -> Any:
        return super().__call__(inputs * 2, *arguments, **options)


class MixingSequential(Sequential):
    """Mixes records on the way in."""

    def call(self, inputs: Any, training: None = None, mask: None = None) -> Any:
        return super().call(inputs - inputs.reduce_sum(axis=0, keepdims=True))


program.each(
    "model",
    alone,
    with_a_layer_of_ones_own=lambda: model(first(Mixing)),
    with_a_backward_of_ones_own=lambda: model(first(Doubling)),
    with_something_around_a_layer=lambda: model(first(), Around(), layers.Dense(CLASSES)),
    with_a_call_of_ones_own=lambda: fit(model(kind=MixingSequential)),
    with_an_activation_that_is_a_function=lambda: model(
        first(activation=lambda x: x * 2), layers.Dense(CLASSES)
    ),
    with_batch_normalisation=lambda: model(first(), layers.BatchNormalization()),
    with_a_reshape=lambda: model(first(), layers.Reshape([2, 2])),
    with_gradients_averaged_first=lambda: model(first(lazy_normalization=True)),
    with_linear_layers_in_a_row=lambda: model(first(), layers.Dense(CLASSES)),
    with_an_activation_behind_it=lambda: model(first(activation="sigmoid")),
)


@program
def model_whose_call_was_replaced() -> None:
    network = model()
    network.call = lambda inputs: inputs * 2
    fit(network)


@program
def model_whose_layers_call_was_replaced() -> None:
    network = model()
    network.layers[0].call = lambda inputs: inputs * 2
    fit(network)


@program
def model_whose_activation_was_replaced() -> None:
    network = deep()
    network.layers[0].activation = lambda x: x - x.reduce_sum(axis=0, keepdims=True) * 0.2
    fit(network)


@program
def model_with_a_convolution() -> None:
    kind = layers.Conv2D(2, 3, batch_input_shape=[1, 4, 4, 1])
    model(kind, layers.Flatten(), layers.Dense(CLASSES))


@program
def model_that_is_frozen_whole() -> None:
    network = deep()
    for layer in network.layers:
        layer.trainable = False
    fit(network)


@program
def model_with_a_layer_put_in_afterwards() -> None:
    network = model()
    network._layers.append(layers.BatchNormalization())
    fit(network)


@program
def model_with_a_layer_twice() -> None:
    layer = first(activation="relu")
    model(layer, layer, layers.Dense(CLASSES))


@program
def model_with_a_bias_in_common() -> None:
    network = deep()
    below, above = network.layers
    above.bias = below.bias
    fit(network)


@program
def model_that_starts_too_large() -> None:
    network = deep()
    network.set_weights([np.full(weight.shape, 26.0) for weight in network.get_weights()])
    fit(network)


# Gradients are taken or used in other ways.

program.each(
    "",
    alone,
    optimizer_of_the_host=lambda: Sequential([first()]).compile(
        optimizers.SGD(), BinaryCrossentropy()
    ),
    optimizer_in_a_model_of_the_host=lambda: host.Sequential(
        [layers.Dense(CLASSES, batch_input_shape=[6, WIDTH])]
    ).compile(optimizer(), BinaryCrossentropy()),
    loss_of_the_host_on_probabilities=lambda: Sequential([first()]).compile(
        optimizer(), losses.BinaryCrossentropy()
    ),
    loss_that_is_a_square=lambda: Sequential([first()]).compile(
        optimizer(), losses.MeanSquaredError()
    ),
)


@program
def loss_that_averages_first() -> None:
    loss = losses.BinaryCrossentropy(from_logits=True, lazy_normalization=True)
    Sequential([first()]).compile(optimizer(), loss)


program.each(
    "",
    alone,
    gradient_of_a_whole_batch=lambda: model().backward(shared()[1]),
    batch_of_the_host=lambda: model().fit_batch(*shared()),
    training_without_an_optimizer=lambda: fit(Sequential([first()])),
    training_of_no_steps=lambda: fit(model(), steps=0),
    training_that_goes_on_beyond_its_end=lambda: fit(model(), initial_step=2),
    training_that_moves_too_far=lambda: fit(deep(learning_rate=300.0), steps=9),
)


# What is counted, and when a training ends, costs more than it seems.

program.each(
    "validation",
    alone,
    on_what_is_trained_on=lambda: fit(model(), validation_data=owned()),
    on_a_data_set_that_is_trained_on=lambda: fit(model(), validation_data=data_sets("server0")),
)


@program
def validation_on_a_part_of_what_is_trained_on() -> None:
    x, y = owned()
    fit(model(), validation_data=({"server0": x["server0"][2:]}, {"server0": y["server0"][2:]}))


@after_a_step
def evaluation_on_what_was_trained_on() -> None:
    network = model()
    fit(network)
    network.evaluate(*owned())


@after_a_step
def evaluation_on_private_tensors_that_were_trained_on() -> None:
    network, tensors = model(), shared()
    fit(network, vouch_for(*tensors, max_feature_norm=1.0))
    network.evaluate(*tensors)


program.each(
    "counts",
    alone,
    with_no_noise_at_all=lambda: fit(model(), validation_data=owned(), count_noise=0.0),
)


@program
def weights_restored_by_a_callback() -> None:
    stop = callbacks.EarlyStopping("val_accuracy", restore_best_weights=True)
    fit(model(), callbacks=[stop])


program.each(
    "",
    alone,
    weights_written_by_a_callback=lambda: fit(
        model(), callbacks=[callbacks.ModelCheckpoint("weights")]
    ),
    learning_rate_of_a_function=lambda: fit(model(learning_rate=lambda: 0.5)),
    learning_rate_that_ends_at_zero=lambda: fit(
        model(learning_rate=schedules.CosineDecay(0.5, decay_steps=3)), steps=5
    ),
)


@program
def learning_rates_that_move_too_far() -> None:
    rising = schedules.ExponentialDecay(1.0, decay_steps=1, decay_rate=3.0)
    network = deep(learning_rate=rising)
    fit(network, steps=9)
