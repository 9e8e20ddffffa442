"""Programs for ABY3's Keras whose epsilon would be false: every one of them must be refused."""

from typing import Any

import numpy as np
import tensorflow as tf
from tf_keras import callbacks
from tf_keras.optimizers import schedules

from tests.helpers.programs import Corpus
from tests.helpers.programs.keras_script import (
    CLASSES,
    WIDTH,
    data_sets,
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


@program
def features_shared_by_the_script() -> None:
    on_features(lambda x: x)


@program
def features_scaled() -> None:
    on_features(lambda x: x * 20)


@program
def features_centred() -> None:
    on_features(lambda x: x - x.reduce_sum(axis=0, keepdims=True) * 0.2)


@program
def features_with_everybodys_sum() -> None:
    on_features(lambda x: x + x.reduce_sum(axis=0, keepdims=True))


@program
def features_mixed_by_a_public_matrix() -> None:
    on_features(lambda x: tfe.matmul(tfe.define_constant(np.ones((6, 6))), x))


@program
def features_with_rows_merged() -> None:
    on_features(lambda x: tfe.transpose(tfe.reshape(x, [WIDTH, -1])))


@program
def features_of_one_record_in_all_rows() -> None:
    on_features(lambda x: tfe.concat([x[:1]] * 6, axis=0))


@program
def features_doubled_in_number() -> None:
    x, y = shared()
    fit(model(), (tfe.concat([x, x], axis=0), tfe.concat([y, y], axis=0)))


@program
def features_clipped_under_encryption() -> None:
    on_features(lambda x: tfe.clip_by_norm(x, 1.0))


@program
def features_that_another_model_made() -> None:
    other = model(first())
    on_features(lambda x: other.call(x))


@program
def features_from_a_variable() -> None:
    _, y = shared()
    fit(model(), (tfe.define_private_variable(records()[0]), y))


@program
def features_that_are_public() -> None:
    _, y = shared()
    fit(model(), (tfe.define_constant(records()[0]), y))


@program
def features_shared_within_a_dictionary() -> None:
    x, y = shared()
    fit(model(), ({"server0": x}, {"server0": y}))


@program
def features_without_owner() -> None:
    fit(model(), records())


@program
def features_of_tensorflow() -> None:
    x, y = records()
    fit(model(), (tf.constant(x), tf.constant(y)))


@program
def features_beyond_their_bound() -> None:
    x, y = owned()
    fit(model(), ({name: 20 * values for name, values in x.items()}, y))


@program
def features_that_are_no_numbers() -> None:
    x, y = owned()
    x["server0"][0, 0] = np.nan
    fit(model(), (x, y))


@program
def features_of_another_width() -> None:
    x, y = owned()
    fit(model(), ({name: values[:, :2] for name, values in x.items()}, y))


@program
def features_of_nobody() -> None:
    x, y = owned()
    fit(model(), ({name: values[:0] for name, values in x.items()}, y))


@program
def features_of_a_data_set_that_repeats() -> None:
    fit(model(), ({name: one.repeat(2) for name, one in data_sets().items()}, None))


@program
def features_of_a_data_set_on_anothers_device() -> None:
    one, other = data_sets().values()
    fit(model(), ({"server0": other, "server1": one}, None))


@program
def features_of_a_data_set_beyond_their_bound() -> None:
    fit(model(max_feature_norm=0.1), (data_sets(), None))


@program
def features_of_a_data_set_with_other_targets() -> None:
    fit(model(), (data_sets(), owned()[1]))


@program
def features_of_a_data_set_without_owner() -> None:
    fit(model(), (data_sets()["server0"], None))


@program
def targets_beyond_their_range() -> None:
    x, y = owned()
    fit(model(), (x, {name: 30.0 * np.eye(CLASSES)[labels] for name, labels in y.items()}))


@program
def targets_of_other_owners() -> None:
    x, y = owned()
    fit(model(), (x, {"server2": y["server0"], "server1": y["server1"]}))


@program
def targets_shared_beside_owned_features() -> None:
    fit(model(), (owned()[0], shared()[1]))


# What was vouched for is used as something else.


@program
def vouched_features_with_plain_targets() -> None:
    x, _ = vouched()
    fit(model(), (x, shared()[1]))


@program
def vouched_targets_with_owned_features() -> None:
    _, y = vouched()
    fit(model(), (owned()[0], y))


@program
def vouched_parts_of_two_calls() -> None:
    fit(model(), (vouched()[0], vouched()[1]))


@program
def vouched_parts_in_the_wrong_order() -> None:
    fit(model(), vouched()[::-1])


@program
def vouched_features_as_targets() -> None:
    x, _ = vouched()
    fit(model(), (x, x))


@program
def vouched_records_of_a_sample() -> None:
    fit(model(sample_rate=0.5), vouched())


@program
def vouched_records_of_a_larger_bound() -> None:
    fit(model(max_feature_norm=1.0), vouched(max_feature_norm=2.0))


@program
def vouched_records_without_a_bound() -> None:
    vouched(max_feature_norm=float("inf"))


@program
def vouched_records_that_do_not_match() -> None:
    vouched(lambda x: x[:-1])


@program
def vouched_records_in_the_clear() -> None:
    vouch_for(*records(), max_feature_norm=1.0)


@program
def vouched_records_of_another_width() -> None:
    fit(model(), vouched(lambda x: x[:, :2]))


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


@program
def model_with_a_layer_of_ones_own() -> None:
    model(first(Mixing))


@program
def model_with_a_backward_of_ones_own() -> None:
    model(first(Doubling))


@program
def model_with_something_around_a_layer() -> None:
    model(first(), Around(), layers.Dense(CLASSES))


@program
def model_with_a_call_of_ones_own() -> None:
    fit(model(kind=MixingSequential))


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
    network = model(first(activation="relu"), layers.Dense(CLASSES))
    network.layers[0].activation = lambda x: x - x.reduce_sum(axis=0, keepdims=True) * 0.2
    fit(network)


@program
def model_with_an_activation_that_is_a_function() -> None:
    model(first(activation=lambda x: x * 2), layers.Dense(CLASSES))


@program
def model_with_batch_normalisation() -> None:
    model(first(), layers.BatchNormalization())


@program
def model_with_a_convolution() -> None:
    kind = layers.Conv2D(2, 3, batch_input_shape=[1, 4, 4, 1])
    model(kind, layers.Flatten(), layers.Dense(CLASSES))


@program
def model_with_a_reshape() -> None:
    model(first(), layers.Reshape([2, 2]))


@program
def model_with_gradients_averaged_first() -> None:
    model(first(lazy_normalization=True))


@program
def model_that_is_frozen_whole() -> None:
    network = model(first(activation="relu"), layers.Dense(CLASSES))
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
    network = model(first(activation="relu"), layers.Dense(CLASSES))
    below, above = network.layers
    above.bias = below.bias
    fit(network)


@program
def model_with_linear_layers_in_a_row() -> None:
    model(first(), layers.Dense(CLASSES))


@program
def model_with_an_activation_behind_it() -> None:
    model(first(activation="sigmoid"))


@program
def model_that_starts_too_large() -> None:
    network = model(first(activation="relu"), layers.Dense(CLASSES))
    network.set_weights([np.full(weight.shape, 26.0) for weight in network.get_weights()])
    fit(network)


# Gradients are taken or used in other ways.


@program
def optimizer_of_the_host() -> None:
    Sequential([first()]).compile(optimizers.SGD(), BinaryCrossentropy())


@program
def optimizer_in_a_model_of_the_host() -> None:
    host.Sequential([layers.Dense(CLASSES, batch_input_shape=[6, WIDTH])]).compile(
        optimizer(), BinaryCrossentropy()
    )


@program
def loss_of_the_host_on_probabilities() -> None:
    Sequential([first()]).compile(optimizer(), losses.BinaryCrossentropy())


@program
def loss_that_is_a_square() -> None:
    Sequential([first()]).compile(optimizer(), losses.MeanSquaredError())


@program
def loss_that_averages_first() -> None:
    loss = losses.BinaryCrossentropy(from_logits=True, lazy_normalization=True)
    Sequential([first()]).compile(optimizer(), loss)


@program
def gradient_of_a_whole_batch() -> None:
    model().backward(shared()[1])


@program
def batch_of_the_host() -> None:
    model().fit_batch(*shared())


@program
def training_without_an_optimizer() -> None:
    fit(Sequential([first()]))


@program
def training_of_no_steps() -> None:
    fit(model(), steps=0)


@program
def training_that_goes_on_beyond_its_end() -> None:
    fit(model(), initial_step=2)


@program
def training_that_moves_too_far() -> None:
    fit(model(first(activation="relu"), layers.Dense(CLASSES), learning_rate=300.0), steps=9)


# What is counted, and when a training ends, costs more than it seems.


@program
def validation_on_what_is_trained_on() -> None:
    fit(model(), validation_data=owned())


@program
def validation_on_a_part_of_what_is_trained_on() -> None:
    x, y = owned()
    fit(model(), validation_data=({"server0": x["server0"][2:]}, {"server0": y["server0"][2:]}))


@program
def validation_on_a_data_set_that_is_trained_on() -> None:
    fit(model(), validation_data=data_sets("server0"))


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


@program
def counts_with_no_noise_at_all() -> None:
    fit(model(), validation_data=owned(), count_noise=0.0)


@program
def weights_restored_by_a_callback() -> None:
    stop = callbacks.EarlyStopping("val_accuracy", restore_best_weights=True)
    fit(model(), callbacks=[stop])


@program
def weights_written_by_a_callback() -> None:
    fit(model(), callbacks=[callbacks.ModelCheckpoint("weights")])


@program
def learning_rate_of_a_function() -> None:
    fit(model(learning_rate=lambda: 0.5))


@program
def learning_rate_that_ends_at_zero() -> None:
    fit(model(learning_rate=schedules.CosineDecay(0.5, decay_steps=3)), steps=5)


@program
def learning_rates_that_move_too_far() -> None:
    rising = schedules.ExponentialDecay(1.0, decay_steps=1, decay_rate=3.0)
    network = model(first(activation="relu"), layers.Dense(CLASSES), learning_rate=rising)
    fit(network, steps=9)
