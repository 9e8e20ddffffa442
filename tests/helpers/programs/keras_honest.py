"""Programs for ABY3's Keras that users rightly write: every one of them must run."""

import tempfile
from pathlib import Path

import numpy as np
from tf_keras import callbacks
from tf_keras.optimizers import schedules

from extensions.privacy.randomness import InsecureSeededSource
from tests.helpers.programs import Corpus, alone
from tests.helpers.programs.keras_script import (
    CLASSES,
    WIDTH,
    data_sets,
    deep,
    first,
    fit,
    held_out,
    model,
    optimizer,
    owned,
    records,
    shared,
    vouched,
)
from tests.helpers.tfe_tasks.session import OWNER
from tfe_ext.keras import SGD, BinaryCrossentropy, CategoricalCrossentropy, Sequential, vouch_for

import tf_encrypted as tfe
from tf_encrypted.keras import layers, losses

program = Corpus()


program.each(
    "records",
    alone,
    of_two_owners=lambda: fit(model()),
    sampled=lambda: fit(model(sample_rate=0.5), epochs=1),
    vouched_for=lambda: fit(model(), vouched()),
    made_under_encryption_and_vouched_for=lambda: fit(
        model(), vouched(lambda x: tfe.clip_by_norm(x * 2, 1.0))
    ),
    of_a_data_set=lambda: fit(model(), (data_sets(), None)),
)


@program
def records_of_somebody_who_is_no_server() -> None:
    x, y = records()
    fit(model(), ({OWNER: x}, {OWNER: y}))


@program
def records_with_targets() -> None:
    x, y = owned()
    fit(model(), (x, {name: np.eye(CLASSES)[labels] for name, labels in y.items()}))


@program
def records_of_a_larger_bound() -> None:
    x, y = owned()
    larger = {name: 4 * values for name, values in x.items()}
    fit(model(max_feature_norm=4.0), (larger, y))


@program
def records_that_are_lists() -> None:
    x, y = records()
    fit(model(), ({"server2": x.tolist()}, {"server2": y.tolist()}))


@program
def records_vouched_for_in_several_fits() -> None:
    network, data = model(), vouched()
    for _ in range(3):
        fit(network, data)
    assert network.optimizer.ledger.phases[0].steps == 3


@program
def images_vouched_for() -> None:
    x, y = shared()
    images = vouch_for(tfe.reshape(x, [6, 2, 2]), y, max_feature_norm=1.0)
    fit(model(layers.Flatten(batch_input_shape=[1, 2, 2]), layers.Dense(CLASSES)), images)


@program
def images_of_an_owner() -> None:
    x, y = records()
    network = model(layers.Flatten(batch_input_shape=[1, 2, 2]), layers.Dense(CLASSES))
    fit(network, ({"server0": x.reshape(-1, 2, 2)}, {"server0": y}))


program.each(
    "model",
    alone,
    with_a_hidden_layer=lambda: fit(deep()),
    with_an_activation_layer=lambda: fit(
        model(first(), layers.Activation("sigmoid"), layers.Dense(CLASSES))
    ),
    without_bias=lambda: fit(model(first(use_bias=False))),
)


@program
def model_with_pooling_in_front() -> None:
    kind = layers.AveragePooling2D(2, batch_input_shape=[1, 2, 2, 1])
    x, y = owned()
    images = {name: values.reshape(-1, 2, 2, 1) for name, values in x.items()}
    fit(model(kind, layers.Flatten(), layers.Dense(CLASSES)), (images, y))


@program
def model_of_which_the_last_layer_is_trained() -> None:
    network = deep()
    network.layers[0].trainable = False
    before = network.get_weights()
    fit(network)
    same = [np.array_equal(*pair) for pair in zip(before, network.get_weights(), strict=True)]
    assert same == [True, True, False, False]


@program
def model_with_weights_set() -> None:
    network = model()
    network.set_weights([np.zeros((WIDTH, CLASSES)), np.zeros(CLASSES)])
    fit(network)


@program
def model_of_a_class_that_only_has_a_name() -> None:
    class Classifier(Sequential):
        """The same."""

    fit(model(kind=Classifier))


@program
def layer_of_a_class_that_only_has_defaults() -> None:
    class Wide(layers.Dense):
        def __init__(self, **options: object) -> None:
            super().__init__(CLASSES, **options)

    fit(model(Wide(batch_input_shape=[1, WIDTH])))


@program
def loss_of_softmax() -> None:
    network = Sequential([first()])
    network.compile(optimizer(), CategoricalCrossentropy())
    fit(network)


@program
def loss_of_the_host() -> None:
    network = Sequential([first()])
    network.compile(optimizer(), losses.BinaryCrossentropy(from_logits=True))
    fit(network)


@program
def plain_sgd() -> None:
    network = Sequential([first()])
    network.compile(SGD(0.5, 0.5), BinaryCrossentropy())
    fit(network)


program.each(
    "training",
    alone,
    from_a_seed=lambda: fit(model(source=InsecureSeededSource(4))),
    with_a_schedule=lambda: fit(
        model(learning_rate=schedules.CosineDecay(0.5, decay_steps=9)), steps=2
    ),
)


@program
def records_of_a_data_set_beside_arrays() -> None:
    x, y = owned()
    fit(model(), ({**x, **data_sets("server2")}, y))


@program
def training_with_callbacks_of_keras() -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = callbacks.CSVLogger(f"{folder}/log.csv")
        plateau = callbacks.ReduceLROnPlateau("val_accuracy", patience=1, min_delta=2.0)
        network = model(sample_rate=0.5)
        fit(network, steps=6, callbacks=[log, plateau], validation_data=held_out())
        assert network.optimizer.learning_rate < 0.5
        assert "epsilon" in Path(f"{folder}/log.csv").read_text()


@program
def counts_with_noise() -> None:
    network = model()
    fit(network, validation_data=owned(), count_noise=5.0)
    network.evaluate(data_sets(), count_noise=5.0)


@program
def model_of_a_configuration() -> None:
    network = Sequential.from_config(model().get_config())
    network.compile(optimizer(), BinaryCrossentropy())
    fit(network)


@program
def prediction_on_private_tensors() -> None:
    x, y = shared()
    network = model()
    network.predict(x * 20 - x.reduce_sum(axis=0, keepdims=True))
    network.evaluate(x, y)


@program
def prediction_between_fits() -> None:
    network = model()
    for _ in range(2):
        fit(network)
        network.evaluate(*held_out())
