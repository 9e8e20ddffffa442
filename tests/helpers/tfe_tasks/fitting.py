"""Tasks on what a user of Keras writes: data sets, callbacks, validation, schedules."""

import functools
import json
import re
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras import callbacks
from tf_keras.optimizers import schedules

from extensions.errors import GradientError, UnsupportedLayerError
from extensions.privacy.accounting import Ledger, epsilon
from extensions.privacy.sampling import capacity
from extensions.protocols.noisy_sums.counts import COUNTED
from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.keras import after_steps, model_of, records
from tests.helpers.tfe_tasks.session import CONFIG, OWNER, PROTOCOL, counted_graphs, private
from tfe_ext.graphs.batches import OwnersRecords, check_owners
from tfe_ext.keras import DPSGD, SGD, BinaryCrossentropy, Checkpoints, Sequential, vouch_for

from tf_encrypted.keras import layers

F, FEATURES, CLASSES = 20, 4, 2
DEVICE = CONFIG.get_player(OWNER).device_name
NETWORK = model_of([FEATURES, CLASSES]).chain.network


def columns(x, y=None, network=NETWORK, **options):
    """The columns of the owner's table."""
    checked = check_owners(x, y, network, **{"frac_bits": F, "max_feature_norm": 1.0, **options})
    (table,) = OwnersRecords(PROTOCOL.ring.servers, checked).tables.values()
    values = table.everything()
    assert {value.backing_device for value in values} == {DEVICE}
    return [value.numpy() for value in values]


def same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def datasets_give_what_arrays_give():
    """Whatever their batches, types and shapes are, and wherever they lie."""
    x, y = records(11, FEATURES, CLASSES)
    expected = columns({OWNER: x}, {OWNER: y})
    targets = np.eye(CLASSES)[y]
    for scope in (DEVICE, None):
        with tf.device(scope):
            pairs = tf.data.Dataset.from_tensor_slices((x, y))
            forms = (
                pairs,
                pairs.batch(4),
                pairs.batch(4).prefetch(2).repeat(1),
                pairs.map(lambda a, b: (tf.reshape(a, [2, 2]), tf.cast(b, tf.uint8))),
                tf.data.Dataset.from_tensor_slices((x, targets)).batch(3),
            )
        for form in forms:
            same(columns({OWNER: form}), expected)
    with tf.device(DEVICE):
        bytes_of = np.arange(12, dtype=np.uint8).reshape(3, 4)
        images = tf.data.Dataset.from_tensor_slices((bytes_of, [[0.5], [1.0], [0.0]])).batch(2)
    single = model_of([FEATURES, 1]).chain.network
    found = columns({OWNER: images}, network=single, max_feature_norm=20.0)
    expected = {OWNER: bytes_of}, {OWNER: np.array([0.5, 1.0, 0.0])}
    same(found, columns(*expected, network=single, max_feature_norm=20.0))
    mixed = {OWNER: forms[1], "server0": x}
    assert len(check_owners(mixed, {"server0": y}, NETWORK, frac_bits=F, max_feature_norm=1.0)) == 2


def wrong_datasets_are_refused():
    x, y = records(11, FEATURES, CLASSES)
    pairs = tf.data.Dataset.from_tensor_slices((x, y))

    def changed(features=x, labels=y):
        return tf.data.Dataset.from_tensor_slices((features, labels))

    with tf.device(CONFIG.get_player("other").device_name):
        of_another = changed()
    unusual = np.where(np.arange(11)[:, None] == 7, np.nan, x)
    twice, endless = (f"a dataset of {OWNER} with repeat()", f"a dataset without end of {OWNER}")
    cases = [
        ("x", "value", f"a dataset of {OWNER} on the device of other", of_another),
        ("x", "value", twice, pairs.shuffle(3).repeat(2).batch(5)),
        ("x", "value", twice, pairs.repeat()),
        ("x", "value", endless, tf.data.Dataset.random().map(lambda i: (tf.zeros([4]), i % 2))),
        *(
            ("x", "type", f"{unfit.element_spec} of {OWNER}", unfit)
            for unfit in (
                pairs.map(lambda a, b: (a, b, 1.0)),
                pairs.map(lambda a, b: a),
                pairs.map(lambda a, b: ({"a": a}, b)),
                pairs.map(lambda a, b: (tf.strings.as_string(a), b)),
            )
        ),
        ("x", "shape", f"elements of shape (3,) of {OWNER}", changed(x[:, :3])),
        ("x", "shape", f"a dataset of {OWNER}", pairs.take(0)),
        *(
            ("x", "data", f"row {row} of {OWNER}'s dataset", unfit)
            for row, unfit in (
                (7, changed(unusual)),
                (3, changed(x * (1 + 8 * (np.arange(11) == 3))[:, None])),
                (2, changed(labels=y + 3 * (np.arange(11) == 2))),
                (0, changed(labels=np.eye(2)[y] * 1.5)),
            )
        ),
        ("y", "shape", f"labels of shape (3,) of {OWNER}", changed(labels=np.zeros((11, 3)))),
    ]
    for *expected, dataset in cases:
        with refused(*expected):
            columns({OWNER: dataset})
    for features, labels, *expected in (
        ({OWNER: pairs}, {OWNER: y}, "y", "value", f"of ['{OWNER}']"),
        ({OWNER: x}, None, "y", "value", "of []"),
        (pairs, None, "x, y", "type", f"{type(pairs).__name__}, dict"),
    ):
        with refused(*expected):
            columns(features, labels)


class Told(callbacks.Callback):
    """What a callback is told, in order."""

    def __init__(self, stop_after=None):
        super().__init__()
        self.calls, self._stop_after = [], stop_after

    def on_train_begin(self, logs=None):
        self.calls.append(("train", dict(self.params)))

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("epoch", epoch))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("batch", batch, dict(logs)))
        self.model.stop_training = logs["step"] == self._stop_after

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("end", epoch, dict(logs)))


class Session:
    """One model, whose graphs serve all tasks, and who is told of its steps."""

    def __init__(self):
        self.x, self.y = records(20, FEATURES, CLASSES)
        self.data = {OWNER: self.x}, {OWNER: self.y}
        features, labels = records(50, FEATURES, CLASSES, seed=9)
        self.held_out = {OWNER: features}, {OWNER: labels}
        self.model = model_of([FEATURES, CLASSES])

    def compiled(self, rate=0.5, **options):
        """The model, with an optimizer that has not counted anything."""
        optimizer = DPSGD(rate, 1.0, 4.0, 0.3, **options)
        self.model.compile(optimizer, BinaryCrossentropy())
        self.model._trainer.held_out = Ledger()
        self.model.opened = 0
        return self.model, optimizer


@functools.cache
def session():
    return Session()


def callbacks_are_told_what_epochs_cost():
    """An epoch has 1 / 0.3 steps: 3, 4 and 3. The rate is that of a schedule."""
    one, told = session(), Told()
    schedule = schedules.ExponentialDecay(0.5, decay_steps=2, decay_rate=0.5)
    model, optimizer = one.compiled(schedule)
    with tf.device(DEVICE):
        own = tf.data.Dataset.from_tensor_slices((one.x, one.y)).shuffle(20).batch(6)
        kept = tf.data.Dataset.from_tensor_slices(tuple(one.held_out[i][OWNER] for i in (0, 1)))
        kept = kept.batch(16)
    history = model.fit(
        {OWNER: own},
        epochs=3,
        verbose=False,
        callbacks=[told],
        validation_data={OWNER: kept},
        validation_freq=[1, 3],
    )
    step, ends = model.step_cost(), (3, 7, 10)
    assert told.calls[0] == (
        "train",
        {"epochs": 3, "steps": 10, "verbose": 0, "initial_step": 0},
    )
    epochs = [("epoch", 0), ("batch", 0), ("batch", 1), ("batch", 2), ("end", 0), ("epoch", 1)]
    assert [call[:2] for call in told.calls[1:7]] == epochs
    steps = [call[2] for call in told.calls if call[0] == "batch"]
    assert [each["step"] for each in steps] == list(range(1, 11))
    rows = capacity(len(one.x), 0.3, optimizer.settings.overflow_probability / 10)
    each = [server.sent + server.received for server in step.carried]
    padding = round(round(sum(each) / 3) * 3 * (1 - 0.3 * len(one.x) / rows))
    traffic = {"rounds": 3 * step.rounds, "bytes": sum(each), "largest": 3 * max(each)}
    assert steps[2] == {"step": 3, **traffic, "padding": padding}
    assert history is model.history
    assert history.epoch == [0, 1, 2]
    found = history.history
    counts = [rounds - n * step.rounds for rounds, n in zip(found["rounds"], ends, strict=True)]
    assert counts == [counts[0], counts[0], 2 * counts[0]]
    assert counts[0] > 0
    np.testing.assert_allclose(found["lr"], [0.5 * 0.5 ** ((n - 1) / 2) for n in ends], rtol=1e-6)
    assert found["delta"] == [1e-3] * 3
    failure = optimizer.ledger.phases[0].overflow_probability
    spent = [
        epsilon(
            noise_multiplier=4.0,
            sample_rate=0.3,
            steps=n,
            delta=1e-3,
            overflow_probability=failure * n / 10,
        )
        for n in ends
    ]
    np.testing.assert_allclose(found["epsilon"], spent, rtol=1e-6)
    assert found["epsilon"][-1] == optimizer.get_epsilon(1e-3)
    assert found["val_epsilon"] == [np.inf] * 3
    assert len(found["val_accuracy"]) == 2
    kernel, bias = model.get_weights()
    right = (one.held_out[0][OWNER] @ kernel + bias).argmax(axis=1) == one.held_out[1][OWNER]
    assert found["val_accuracy"][-1] == pytest.approx(right.mean(), abs=1e-9)
    with counted_graphs() as traced:
        model.fit(*one.data, steps=2, verbose=False)
        model.fit(*one.data, steps=2, verbose=False, validation_data=one.held_out)
    assert traced() == 0
    assert [phase.steps for phase in model.held_out_ledger.phases] == [3]


def padding_takes_what_is_said():
    """A step on half of 24 records is one on 12 and its padding, but for 43 bytes a parameter."""
    sent, said = [], None
    for count, rate in ((12, 1.0), (24, 0.5)):
        model, (x, y) = model_of([8, 2], optimizer=DPSGD(1.0, 1.0, 4.0, rate)), records(count, 8, 2)
        said = model.fit({OWNER: x}, {OWNER: y}, steps=1, verbose=False).history
        sent.append(said["bytes"][0])
        if rate == 1.0:
            assert said["padding"] == [0]
    padding = sent[1] - sent[0]
    assert padding > 0.4 * sent[0]
    assert padding <= said["padding"][0] <= padding + 43 * (8 + 1) * 2


def schedules_go_on_and_rates_are_assigned():
    one = session()
    schedule = schedules.PiecewiseConstantDecay([1, 4], [0.5, 0.25, 0.125])
    model, optimizer = one.compiled(schedule)
    rates = []
    note = after_steps(lambda _: rates.append(float(optimizer.lr)))
    model.fit(*one.data, steps=3, verbose=False, callbacks=[note])
    state = json.loads(json.dumps(optimizer.state_dict()))
    again = DPSGD.from_config(json.loads(json.dumps(optimizer.get_config())))
    assert again.settings == replace(optimizer.settings, lr=0.5)
    again.load_state_dict(state)
    model.compile(again, BinaryCrossentropy())
    note = after_steps(lambda _: rates.append(float(again.lr)))
    model.fit(*one.data, steps=6, initial_step=3, verbose=False, callbacks=[note])
    assert rates == [0.5, 0.5, 0.25, 0.25, 0.25, 0.125]
    assert again.iterations == 6
    with refused("learning_rate", "conflict", 0.1):
        again.learning_rate = 0.1
    ends = schedules.PolynomialDecay(0.5, decay_steps=3, end_learning_rate=0.0)
    model, optimizer = one.compiled(ends)
    model.fit(*one.data, steps=3, verbose=False)
    with refused("learning_rate", "range", 0.0):
        model.fit(*one.data, steps=1, verbose=False)
    assert optimizer.iterations == 3

    model, optimizer = one.compiled(0.5)
    scheduler = callbacks.LearningRateScheduler(lambda epoch, lr: lr / 2)
    history = model.fit(*one.data, epochs=2, verbose=False, callbacks=[scheduler]).history
    assert history["lr"] == [0.25, 0.125]
    optimizer.learning_rate.assign(0.75)
    assert optimizer.get_config()["learning_rate"] == optimizer.lr.numpy() == 0.75
    for rate in ("fast", True, None, lambda step: 0.1):
        with refused("learning_rate", "type", type(rate).__name__):
            DPSGD(rate, 1.0, 1.0, 1.0)


def schedules_are_checked_before_they_begin():
    """The weights of a hidden layer may move by all rates together, and no further."""
    model = model_of([FEATURES, 3, CLASSES])

    def begin(rate):
        optimizer = DPSGD(rate, 1.0, 1.0, 0.3)
        step = optimizer.step(model.chain.network, frac_bits=F, rows=20, expected=6.0)
        optimizer.begin(step, 40)

    begin(1.5)
    begin(schedules.ExponentialDecay(8.0, decay_steps=4, decay_rate=0.5))

    def growing(rate):
        return schedules.ExponentialDecay(rate, decay_steps=10, decay_rate=4.0)

    for made, rate in ((float, 8.0), (growing, 0.1)):
        with pytest.raises(GradientError, match="max_weight_norm") as caught:
            begin(made(rate))
        (named,) = re.findall(
            r"largest learning rate that is taken is (\S+?)\.?(?: in |$)", str(caught.value)
        )
        begin(made(float(named)))
        with pytest.raises(GradientError):
            begin(made(1.01 * float(named)))


def counts_are_charged_as_what_they_are():
    one = session()
    model, optimizer = one.compiled(delta=1e-4)
    options = {"verbose": False, "validation_data": one.held_out, "count_noise": 5.0}
    history = model.fit(*one.data, steps=8, **options).history
    ledger = Ledger()
    ledger.record("count", noise_multiplier=5.0, sample_rate=1.0, steps=3)
    found = model.held_out_ledger.get_epsilon(1e-4)
    assert history["val_epsilon"][-1] == found
    assert found == pytest.approx(ledger.get_epsilon(1e-4), rel=1e-3)
    assert len(set(history["val_accuracy"])) == 3
    assert [phase.name for phase in optimizer.ledger.phases] == ["training"]

    for part in (slice(None), slice(3, 9), [4, 2, 4]):
        some = {OWNER: one.x[part]}, {OWNER: one.y[part]}
        for count in (model.evaluate, lambda *some: model.fit(*one.data, validation_data=some)):
            with refused("x", "value", f"of {OWNER} records on which the model was trained"):
                count(*some)
    assert optimizer.ledger.phases[0].steps == 8
    model.evaluate(*one.data, count_noise=5.0)
    spent = [(phase.name, phase.noise_multiplier) for phase in optimizer.ledger.phases[1:]]
    assert spent == [(COUNTED, 5.0)]
    assert optimizer.get_epsilon(1e-4) > history["epsilon"][-1]
    assert len(model.held_out_ledger.phases) == 1
    with refused("count_noise", "range", 0.0):
        model.evaluate(*one.held_out, count_noise=0.0)


def counts_are_charged_to_a_training_that_comes_after_them():
    """Once, those with noise and those without, of whichever records are trained on."""
    one = session()
    model, optimizer = model_of([FEATURES, CLASSES]), DPSGD(0.5, 1.0, 4.0, 0.3)
    others = {"server0": one.x[:4]}, {"server0": one.y[:4]}
    some = {OWNER: one.x[3:9]}, {OWNER: one.y[3:9]}
    model.compile(SGD(0.5), BinaryCrossentropy())
    model.evaluate(*others)
    model.compile(optimizer, BinaryCrossentropy())
    for _ in range(2):
        model.evaluate(*some, count_noise=5.0)
    model.evaluate(*one.held_out)
    assert counts(model.held_out_ledger) == {COUNTED: 4}
    with refused("physical_rows", "range", value=0):
        model.fit(*one.data, steps=1, verbose=False, physical_rows=0)
    assert not optimizer.ledger.phases
    model.fit(*one.data, steps=1, verbose=False)
    model.fit(*one.data, steps=1, verbose=False)
    spent = [(phase.name, phase.steps, phase.noise_multiplier) for phase in optimizer.ledger.phases]
    assert spent == [(COUNTED, 2, 5.0), ("training", 2, 4.0)]
    model.fit(*others, steps=1, verbose=False)
    assert optimizer.ledger.phases[2].noise_multiplier == 0.0
    assert optimizer.get_epsilon(1e-3) == np.inf
    again = model_of([FEATURES, CLASSES])
    tensors = private(one.x), private(np.eye(CLASSES)[one.y])
    again.compile(DPSGD(0.5, 1.0, 4.0, 1.0), BinaryCrossentropy())
    again.evaluate(*tensors, count_noise=5.0)
    again.fit(*vouch_for(*tensors, max_feature_norm=1.0), steps=1, verbose=False)
    assert counts(again.optimizer.ledger) == {COUNTED: 1, "training": 1}


def a_training_that_ends_early_is_charged_as_planned():
    """Unless nothing was opened, so that its end can tell nothing."""
    one = session()
    model, optimizer = one.compiled()
    model.fit(*one.data, steps=9, verbose=False, callbacks=[Told(stop_after=4)])
    assert optimizer.ledger.phases[0].steps == 4
    stopping = callbacks.EarlyStopping("val_accuracy", min_delta=2.0, patience=1)
    options = {"verbose": False, "validation_data": one.held_out, "count_noise": 5.0}
    history = model.fit(*one.data, epochs=5, callbacks=[stopping], **options)
    assert history.epoch == [0, 1]
    assert optimizer.ledger.phases[0].steps == 4 + 17
    assert model.held_out_ledger.phases[0].steps == 5
    looking = callbacks.LambdaCallback(on_epoch_end=lambda *_: model.get_weights())
    optimizer.delta = 1e-2
    told = [looking, Told(stop_after=4)]
    history = model.fit(*one.data, steps=9, verbose=False, callbacks=told).history
    assert history["delta"] == [1e-2, 1e-2]
    assert optimizer.ledger.phases[0].steps == 4 + 17 + 9
    model, optimizer = one.compiled()
    raising = callbacks.LambdaCallback(on_epoch_end=lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(*one.data, epochs=5, callbacks=[raising], **options)
    assert optimizer.ledger.phases[0].steps == 17
    assert model.held_out_ledger.phases[0].steps == 5


@contextmanager
def continuations():
    """Yields what begins an attempt at a run of 8 steps: its model, optimizer, checkpoints, steps.

    Checkpoints are those after steps 4 and 8; epochs end after steps 3, 7 and 8.
    """
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(Path(scratch, "state")))

        def begin(resume=True):
            model, optimizer = session().compiled()
            kept = Checkpoints(model, Path(scratch, "run"), steps=8, every=4, resume=resume)
            return model, optimizer, kept, kept.begin()

        yield begin


def counts(ledger):
    """How often each is in a ledger: steps, and counts."""
    found = Counter()
    for phase in ledger.phases:
        found[phase.name] += phase.steps
    return found


def a_run_that_goes_on_has_charged_all_that_was_opened():
    """However often it is interrupted: held-out records and records of the training are counted."""
    one, told = session(), []

    def train(model, kept, made, cut=None, stop_after=None):
        def end(epoch, logs):
            told.append(logs["val_accuracy"])
            model.evaluate(*one.data, count_noise=5.0)
            if epoch == cut:
                raise InterruptedError

        after = [kept, Told(stop_after), callbacks.LambdaCallback(on_epoch_end=end)]
        options = {"validation_data": one.held_out, "count_noise": 5.0, "callbacks": after}
        model.fit(*one.data, steps=8, initial_step=made or 0, verbose=False, **options)

    with continuations() as begin:
        for resume, cut in ((False, 0), (True, 1), (True, 1)):
            model, _, kept, made = begin(resume)
            with pytest.raises(InterruptedError):
                train(model, kept, made, cut)
        assert (made, model.opened) == (4, 8)
        model, optimizer, kept, made = begin()
        assert (made, model.opened) == (4, 8)
        assert counts(optimizer.ledger) == {"training": 3 + 7 + 3, COUNTED: 4}
        train(model, kept, made, stop_after=5)
        assert counts(optimizer.ledger) == {"training": 13 + 4, COUNTED: 5}
        assert counts(model.held_out_ledger) == {COUNTED: len(told) + 1}, "as planned"
        opened = model.opened
        kept.release()
        model.evaluate(*one.held_out)
        assert (len(told), opened) == (5, 10)


def what_else_is_opened_is_kept_before():
    """So are weights, predictions and counts between two calls of `fit`; then the rest is made."""
    one = session()
    with continuations() as begin:
        model, _, kept, _ = begin(resume=False)
        kept.after(0)
        for opening in (
            lambda model: model.get_weights(),
            lambda model: model.predict(private(one.x)),
            lambda model: model.evaluate(*one.held_out),
        ):
            model.fit(*one.data, steps=1, verbose=False)
            opening(model)
            model, optimizer, kept, made = begin()
            assert made == 0
        assert (model.opened, optimizer.iterations) == (3, 0)
        assert counts(optimizer.ledger) == {"training": 3}
        assert counts(model.held_out_ledger) == {COUNTED: 1}
        model.fit(*one.data, steps=8, verbose=False, callbacks=[kept])
        kept.release()
        assert counts(optimizer.ledger) == {"training": 3 + 8}


def unfit_callbacks_are_refused():
    one = session()
    model, optimizer = one.compiled()
    for code, callback in (
        ("type", print),
        ("value", callbacks.ModelCheckpoint("nowhere")),
        ("value", callbacks.TensorBoard("nowhere")),
        ("value", callbacks.EarlyStopping("val_accuracy", restore_best_weights=True)),
    ):
        with refused("callbacks", code, type(callback).__name__):
            model.fit(*one.data, callbacks=[callback])
    for frequency in (0, [0, 1]):
        with refused("validation_freq", "range", frequency):
            model.fit(*one.data, validation_freq=frequency)
    assert not optimizer.ledger.phases


def configurations_make_the_model_again():
    """Ours, and those of Keras, whatever says the shape of the inputs."""
    stack = [
        layers.Flatten(batch_input_shape=[7, 2, 2]),
        layers.Dense(3, activation="relu", kernel_initializer="he_normal"),
        layers.Dense(4, use_bias=False),
        layers.ReLU(),
        layers.Dense(2),
        layers.Activation("sigmoid"),
        layers.Dense(1),
    ]
    model = Sequential(stack[:2] + stack[4:])
    config = json.loads(json.dumps(model.get_config()))
    again = Sequential.from_config(config)
    assert again.get_config() == config
    assert again.chain.network == model.chain.network
    assert [layer.name for layer in again.layers] == [layer.name for layer in model.layers]
    in_keras = tf_keras.Sequential.from_config(config)
    in_keras.set_weights(model.get_weights())
    with tempfile.TemporaryDirectory() as folder:
        model.save_shares(folder)
        again.load_shares(folder)
    same(again.get_weights(), model.get_weights())
    inputs = np.random.default_rng(1).uniform(-0.1, 0.1, (5, 2, 2))
    small = [w * 0.1 for w in model.get_weights()]
    for one in (again, in_keras):
        one.set_weights(small)
    ours = again.predict(private(inputs))
    np.testing.assert_allclose(ours, in_keras.predict(inputs, verbose=0), atol=0.02)
    from_keras = tf_keras.Sequential(
        [tf_keras.Input((4,)), tf_keras.layers.Dense(3, "relu"), tf_keras.layers.Dense(2)]
    )
    taken = Sequential.from_config(from_keras.get_config())
    taken.set_weights(from_keras.get_weights())
    assert taken.chain.network.widths == (4, 3, 2)
    softmax = tf_keras.Sequential([tf_keras.layers.Softmax(input_shape=(4,))])
    with pytest.raises(UnsupportedLayerError, match="Softmax"):
        Sequential.from_config(softmax.get_config())
