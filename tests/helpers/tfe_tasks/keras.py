"""Tasks on private training of the host's Keras layers: what a step does, opens and refuses."""

import ctypes
import functools
import gc
import itertools
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tf_keras.callbacks import LambdaCallback

from extensions.errors import ArgumentError, GradientError, PeaError, UnsupportedLayerError
from extensions.privacy.gaussian_table import digits
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import check_records
from extensions.privacy.units import by_unit
from tests.helpers.arrays import arrays_of
from tests.helpers.refused import refused
from tests.helpers.replayed import Replayed
from tests.helpers.tfe_tasks.session import (
    CONFIG,
    DEVICES,
    OWNER,
    PROTOCOL,
    counted_graphs,
    graph,
    messages,
    private,
)
from tfe_ext.graphs.batches import OwnersRecords
from tfe_ext.graphs.tables import RecordTable
from tfe_ext.keras import (
    DPSGD,
    SGD,
    BinaryCrossentropy,
    CategoricalCrossentropy,
    Checkpoints,
    MeanOfIterates,
    Sequential,
    vouch_for,
)
from tfe_ext.keras.weights import opened as values_of
from tfe_ext.ring.inputs import share_from
from tfe_ext.streams.gaussian import discrete_gaussian, look_up

import tf_encrypted as tfe
from tf_encrypted.keras import layers, losses, optimizers

F = 20
ULP = 2.0**-F
SERVERS = ["server0", "server1", "server2"]
LOSSES = {"sigmoid": BinaryCrossentropy, "softmax": CategoricalCrossentropy}


def model_of(widths, activation="relu", bias=True, optimizer=None, kind="sigmoid"):
    """A compiled chain of Dense layers."""
    inputs, *outputs = widths
    stack = []
    for i, width in enumerate(outputs):
        last = i + 1 == len(outputs)
        stack.append(
            layers.Dense(
                width,
                activation=None if last else activation,
                use_bias=bias,
                **({} if stack else {"batch_input_shape": [1, inputs]}),
            )
        )
    model = Sequential(stack)
    if optimizer is not None:
        model.compile(optimizer, LOSSES[kind]())
    return model


def after_steps(note):
    """A callback that says how many steps were made."""
    return LambdaCallback(on_train_batch_end=lambda _, logs: note(logs["step"]))


def owned(parts):
    """Features and labels by server."""
    return tuple(
        dict(zip(SERVERS, (np.array(part[key]) for part in parts), strict=True)) for key in "xy"
    )


def train(
    parts,
    parameters,
    *,
    activation,
    bias,
    lr,
    rate,
    steps,
    seed,
    max_grad_norm,
    noise,
    private,
    kind,
    decay,
    momentum,
    average,
    bias_scale,
):
    """The weights before and after each step, and what the run cost and spent.

    Arrays are lists; weights are (out, in). After each step the learning rate is multiplied.
    """
    source = Replayed(seed)
    if private:
        beside = {"momentum": momentum, "bias_scale": bias_scale}
        optimizer = DPSGD(lr, max_grad_norm, noise, rate, source=source, **beside)
    else:
        optimizer = SGD(lr, rate, momentum=momentum, source=source)
    shapes = [np.shape(p) for p in parameters if np.ndim(p) == 2]
    widths = [shapes[0][1], *(out for out, _ in shapes)]
    model = model_of(widths, activation, bias, optimizer, kind)
    model.set_weights([np.array(p).T for p in parameters])

    def weights():
        return [w.T.tolist() for w in model.get_weights()]

    seen, graphs = [weights()], []

    def after(_):
        seen.append(weights())
        graphs.append(traced())
        optimizer.learning_rate *= decay

    callbacks = [after_steps(after), MeanOfIterates(average)]
    with counted_graphs() as traced:
        model.fit(*owned(parts), steps=steps, verbose=False, callbacks=callbacks)
    cost = model.step_cost()
    return {
        "steps": [{"before": a, "after": b} for a, b in itertools.pairwise(seen)],
        "end": weights(),
        "rounds": cost.rounds,
        "sent": cost.sent,
        "outside": cost.outside,
        "graphs": graphs[-1] - graphs[0],
        "epsilon": optimizer.get_epsilon(1e-5) if private else None,
    }


def records(count, features=4, classes=2, seed=3):
    draws = np.random.default_rng(seed)
    x = draws.uniform(-1, 1, (count, features)) / np.sqrt(features)
    return x, draws.integers(0, classes, count)


def looked_up(table, u, v):
    return graph(lambda: look_up(table, u, lambda: v))()


def lookup_is_that_of_the_table():
    draws = np.random.default_rng(1)
    for scale in (0.2, 3.0, 400.0, 2.0**46):
        for digit in digits(scale):
            ends = np.concatenate([digit.high, digit.high, digit.high - 1, [0, 2**63 - 1]])
            low = np.concatenate([digit.low, digit.low - 1, digit.low, [0, 2**63 - 1]])
            inside = (ends >= 0) & (low >= 0)
            u = np.concatenate([ends[inside], draws.integers(0, 2**63 - 1, 1000)])
            v = np.concatenate([low[inside], draws.integers(0, 2**63 - 1, 1000)])
            expected = digit.look_up(u, lambda v=v: v)
            found = looked_up([digit], tf.constant(u[None]), tf.constant(v[None]))
            np.testing.assert_array_equal(found[0], expected)
        u[:3], v[:3] = 2**63 - 1, [0, 2**62, 2**63 - 1]
        table = digits(scale)
        words, others = (tf.constant(np.stack([w] * len(table))) for w in (u, v))
        expected = [digit.look_up(u, lambda v=v: v) for digit in table]
        np.testing.assert_array_equal(looked_up(table, words, others), expected)


def gaussians(scale, count):
    """Two runs of one traced function that draws on the second server."""
    device = DEVICES[1]

    @graph
    def run():
        return discrete_gaussian(PROTOCOL.ring.servers.private[device], device, scale, [count])

    return [run().numpy().tolist() for _ in range(2)]


def noise_is_drawn_by_each_server_in_the_graph():
    """Summands of three servers and two runs all differ; no operation calls back into Python."""
    noisy = graph(lambda: tfe.gaussian_noise([50], 3.0).reveal().to_native())
    first, second = noisy().numpy(), noisy().numpy()
    assert not np.any(first == second)
    operations = {op.type for op in noisy.get_concrete_function().graph.get_operations()}
    assert "PyFunc" not in operations
    assert "EagerPyFunc" not in operations

    @graph
    def summands():
        return [
            discrete_gaussian(PROTOCOL.ring.servers.private[on], on, 2.0**40, [50])
            for on in DEVICES
        ]

    drawn = np.stack([*summands(), *summands()])
    assert len(np.unique(drawn)) == drawn.size
    assert tfe.gaussian_noise([3], 0.0).reveal().to_native().numpy().tolist() == [0.0] * 3


def samples(count, rate, rows, runs):
    """How often each record was drawn, and how many were drawn in each run.

    Every row drawn must be a record, none twice, with its own label and norm; padding is zero.
    """
    x, y = records(count)
    own = check_records(x, y, frac_bits=F, classes=2, max_feature_norm=1.0)
    device = CONFIG.get_player(OWNER).device_name
    table = RecordTable(device, own)

    @graph
    def draw():
        stream, source = PROTOCOL.ring.servers.private[device], SystemSource()
        return table.draw(stream, party=0, sample_rate=rate, rows=rows, source=source)

    known = {tuple(row): i for i, row in enumerate(own.features.tolist())}
    often, sizes = np.zeros(count, np.int64), []
    for _ in range(runs):
        features, labels, norms, padding = (part.numpy() for part in draw())
        real = padding == 0
        places = [known[tuple(row)] for row in features[real].tolist()]
        assert len(set(places)) == len(places)
        np.testing.assert_array_equal(labels[real], own.labels[places])
        np.testing.assert_array_equal(norms, (features * features).sum(axis=1))
        assert not np.any(features[~real])
        assert not np.any(labels[~real])
        often[places] += 1
        sizes.append(len(places))
    return often.tolist(), sizes


def samples_of_people(who, most, rows, runs):
    """Which records were drawn in each run, of owners' persons with at most so many of them."""
    x, y = records(len(who))
    own = check_records(x, y, frac_bits=F, classes=2, max_feature_norm=1.0)
    device = CONFIG.get_player(OWNER).device_name
    table = RecordTable(device, by_unit(own, np.array(who), most))

    @graph
    def draw():
        stream, source = PROTOCOL.ring.servers.private[device], SystemSource()
        return table.draw(stream, party=0, sample_rate=0.5, rows=rows, source=source)

    known = {tuple(row): i for i, row in enumerate(own.features.tolist())}
    drawn = []
    for _ in range(runs):
        features, labels, _, padding = (part.numpy() for part in draw())
        places = [known[tuple(row)] for row in features[padding == 0].tolist()]
        np.testing.assert_array_equal(labels[padding == 0], own.labels[places])
        assert not features[padding == 1].any()
        assert len(padding) == rows
        drawn.append(sorted(places))
    return drawn


def rows_of_owners(count, rate, overflow):
    """The public rows of three owners with as many records each."""
    x, y = records(count)
    own = check_records(x, y, frac_bits=F, classes=2, max_feature_norm=1.0)
    return OwnersRecords(PROTOCOL, dict.fromkeys(SERVERS, own)).rows(rate, overflow)


def inputs_are_masked():
    """What a server other than the owner gets of zeros is uniform, or the zero that all know.

    A uniform word is below 2^40 with probability 2^-23, and two of 400 are with less than 1e-8.
    """
    for owner in (*SERVERS, OWNER):
        player = CONFIG.get_player(owner)

        @graph
        def share(player=player):
            with tf.device(player.device_name):
                zero = tf.zeros([100], tf.int64)
            return [
                x.parts for x in share_from(PROTOCOL.ring.servers, [zero, zero], player.device_name)
            ]

        runs = np.array([[[part.numpy() for part in parts] for parts in share()] for _ in "ab"])
        pairs = runs.reshape(2, 2, 3, 2, 100)
        np.testing.assert_array_equal(pairs[..., 1, :], np.roll(pairs[..., 0, :], -1, axis=2))
        assert not np.any(pairs[..., 0, :].sum(axis=2))
        masked = 0
        for server in range(3):
            for words in (pairs[:, :, server, place].ravel() for place in (0, 1)):
                if np.any(words):
                    masked += 1
                    assert (np.abs(words) < 2**40).sum() < 2
                    assert len(np.unique(words)) == words.size
        assert masked == (4 if owner in SERVERS else 6)


def a_fit_opens_nothing_and_ends_where_it_should():
    """One model is traced once, makes all steps, and is evaluated, saved and loaded."""
    x, y = owned([dict(zip("xy", records(20, seed=i), strict=True)) for i in (1, 2, 3)])
    optimizer = DPSGD(0.5, 1.0, 4.0, 0.5)
    model = model_of([4, 2], optimizer=optimizer)
    start = model.get_weights()
    made = []
    sent = messages(lambda: model.fit(x, y, steps=1, verbose=False))
    assert sent
    assert {receiver for _, receiver, *_ in sent} == set(DEVICES)
    step = model._trainer.step.graph
    assert not step.outputs
    operations = {op.type for op in step.get_operations()}
    assert not operations & {"PyFunc", "EagerPyFunc", "Print", "PrintV2"}
    assert model.step_cost().outside == 0

    model.fit(x, y, epochs=3, verbose=False, callbacks=[after_steps(made.append)])
    assert made == [1, 2, 3, 4, 5, 6]
    other = {name: -values for name, values in x.items()}
    with counted_graphs() as traced:
        model.fit(other, y, steps=6, verbose=False)
    assert traced() == 0
    assert optimizer.ledger.phases[0].steps == 13
    assert optimizer.get_epsilon(1e-5) > 0

    weights = model.get_weights()
    assert all(np.any(a != b) for a, b in zip(start, weights, strict=True))
    features = np.concatenate(list(x.values()))
    truth = np.concatenate(list(y.values()))
    logits = features @ weights[0] + weights[1]
    lead = logits[np.arange(60), truth] - logits[np.arange(60), 1 - truth]
    close = (np.abs(lead) < 100 * ULP).sum()
    np.testing.assert_allclose(model.predict(private(features)), logits, atol=20 * ULP)

    with tempfile.TemporaryDirectory() as folder:
        paths = model.save_shares(folder)
        assert [path.name for path in paths] == ["party-0.npz", "party-1.npz", "party-2.npz"]
        assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
        files = [arrays_of(path) for path in paths]
        total = sum(own["weight_0"] for own in files)
        np.testing.assert_array_equal(total * ULP, weights[0].T)
        assert all(np.abs(own["weight_0"]).max() > 2**40 for own in files)
        again = model_of([4, 2])
        again.load_shares(folder)
        for a, b in zip(again.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(a, b)
        assert abs(again.evaluate(x, y) * 60 - (lead > 0).sum()) <= close + 1e-9
        shared = again.predict(private(features), reveal=False)
        np.testing.assert_allclose(shared.reveal().to_native(), logits, atol=20 * ULP)
        with refused("folder", "file"):
            model_of([3, 2]).load_shares(folder)
        earlier = paths[1].read_bytes()
        model.save_shares(folder)
        paths[1].write_bytes(earlier)
        with refused("folder", "file"):
            again.load_shares(folder)
        for a, b in zip(again.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(a, b)
        model.save_shares(folder)
        contents = [path.read_bytes() for path in paths]
        for order in ([1, 0, 2], [0, 0, 2], [1, 2, 0]):
            for path, own in zip(paths, order, strict=True):
                path.write_bytes(contents[own])
            with pytest.raises(ArgumentError) as caught:
                again.load_shares(folder)
            assert caught.value.argument == "folder"
            assert "party-" in str(caught.value.value)
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        for a, b in zip(again.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(a, b)
        (Path(folder) / "party-1.npz").write_bytes(b"damaged")
        with refused("folder", "file"):
            again.load_shares(folder)


def a_run_goes_on_from_its_checkpoints():
    """With one seed the run that was cut off ends where the other does, up to truncation."""
    parts = [dict(zip("xy", records(20, seed=s), strict=True)) for s in range(3)]
    x, y = owned(parts)

    def begin(folder, resume, cut=None):
        source = InsecureSeededSource(4)
        optimizer = DPSGD(0.5, 1.0, 1.0, 0.5, momentum=0.75, source=source)
        model = model_of([4, 2], optimizer=optimizer)
        model.set_weights([np.full(shape, 0.1) for shape in ((4, 2), (2,))])
        kept = Checkpoints(
            model, folder, steps=6, every=2, resume=resume, settings={"lr": 0.5, "seed": 4}
        )
        made = kept.begin()
        if made is None:
            kept.after(0)

        def interrupt(step):
            if step == cut:
                raise InterruptedError

        after = [kept, MeanOfIterates(1.0), after_steps(interrupt)]
        fit = functools.partial(model.fit, x, y, steps=6, verbose=False, callbacks=after)
        if cut is None:
            fit(initial_step=made or 0)
            opened = kept.release()
            for i, (kernel, bias) in enumerate(zip(*[iter(model.get_weights())] * 2, strict=True)):
                np.testing.assert_array_equal(opened[f"weight_{i}"].T, kernel)
                np.testing.assert_array_equal(opened[f"bias_{i}"], bias)
        else:
            with pytest.raises(InterruptedError):
                fit(initial_step=made or 0)
        return model, optimizer, kept

    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        folder = Path(scratch)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        whole, whole_optimizer, _ = begin(folder / "whole", False)
        cut, _, _ = begin(folder / "kept", False, cut=4)
        names = sorted(path.name for path in (folder / "kept").iterdir())
        assert names == [f"party-{r}-step-{s}.checkpoint" for r in range(3) for s in (2, 4)]
        assert {path.stat().st_mode & 0o777 for path in (folder / "kept").iterdir()} == {0o600}
        opened = values_of(cut.ring, cut.chain.held)  # of which the run is not told
        (folder / "kept" / "party-1-step-4.checkpoint").unlink()
        shutil.copytree(folder / "kept", folder / "copy")
        model, optimizer, kept = begin(folder / "kept", True)
        assert kept.resumed == (2,)
        assert optimizer.state_dict() == whole_optimizer.state_dict()
        assert optimizer.ledger.phases[0].steps == 6
        for a, b, before in zip(model.get_weights(), whole.get_weights(), opened, strict=True):
            np.testing.assert_allclose(a, b, atol=100 * ULP)
            assert np.abs(a - before).max() > 1000 * ULP
        with refused("checkpoint", "value", f"{folder / 'copy'}, of a run that was finished"):
            begin(folder / "copy", True)
        assert not model.optimizer_state.shares(0).keys() & {"total_0", "total_1"}
        with refused("initial_step", "range", 4):
            model.fit(x, y, steps=6, initial_step=4, callbacks=[MeanOfIterates(1.0)])
        with refused("initial_step", "range", 7):
            model.fit(x, y, steps=6, initial_step=7, verbose=False)


def steps_are_fresh():
    """From equal weights, with shared records of all zeros, two runs of a step differ everywhere.

    Only the noise moves such weights; a value repeats with probability below 2^-20 each.
    """
    shared = private(np.zeros([6, 4])), private(np.full([6, 2], 0.5))
    x, y = vouch_for(*shared, max_feature_norm=1.0)
    model = model_of([4, 2], optimizer=DPSGD(1.0, 1.0, 1.0, 1.0))
    zeros = [np.zeros([4, 2]), np.zeros([2])]
    results = []
    for _ in range(3):
        model.set_weights(zeros)
        model.fit(x, y, steps=1, verbose=False)
        results.append(np.concatenate([w.ravel() for w in model.get_weights()]))
    for a, b in itertools.combinations(results, 2):
        assert not np.any(a == b)


def one_output_and_other_layers():
    """A single sigmoid output behind Flatten learns a sign; hidden layers may be written apart."""
    draws = np.random.default_rng(2)
    x = draws.uniform(-0.5, 0.5, (40, 2, 2))
    y = (x[:, 0, 0] > 0).astype(np.int64)
    model = Sequential(
        [
            layers.Flatten(batch_input_shape=[1, 2, 2]),
            layers.Dense(1, activation="linear", kernel_initializer="zeros"),
        ]
    )
    loss = losses.BinaryCrossentropy(from_logits=True)
    model.compile(DPSGD(20.0, 1.0, 0.01, 0.8, max_feature_norm=1.0), loss)
    model.fit({OWNER: x}, {OWNER: y}, steps=25, verbose=False)
    assert model.evaluate({OWNER: -x}, {OWNER: 1 - y}) > 0.9
    written = [
        layers.Dense(3, batch_input_shape=[5, 4]),
        layers.ReLU(),
        layers.Dense(2),
        layers.Activation("sigmoid"),
        layers.Dense(2, activation=None),
    ]
    chain = Sequential(written).chain
    assert chain.network.widths == (4, 3, 2, 2)
    assert [f.name for f in chain.network.activations] == ["relu", "sigmoid"]


def wrong_layers_are_refused():
    def dense(*args, **options):
        return layers.Dense(*args, batch_input_shape=[1, 4], **options)

    unsupported = {
        "lazy_normalization": [dense(2, lazy_normalization=True)],
        "its activation is 'softmax'": [dense(2, activation="softmax")],
        "BatchNormalization": [dense(2), layers.BatchNormalization()],
        "trainable=True for": [dense(2, trainable=False)],
        "must come before it": [dense(3), layers.Dense(2)],
        "the last Dense must be": [dense(2, activation="sigmoid")],
        "follow a linear layer": [layers.ReLU(batch_input_shape=[1, 4]), layers.Dense(2)],
        "needs a Dense layer": [layers.Flatten(batch_input_shape=[1, 2, 2])],
        "channels_last": [layers.Flatten("channels_first", batch_input_shape=[1, 2, 2])],
    }
    for match, stack in unsupported.items():
        with pytest.raises(UnsupportedLayerError, match=match):
            Sequential(stack).compile(DPSGD(1.0, 1.0, 1.0, 1.0), BinaryCrossentropy())
    with refused("layers[0].batch_input_shape", "shape", None):
        Sequential([layers.Dense(2)])
    model = model_of([4, 2])
    lazy = losses.BinaryCrossentropy(from_logits=True, lazy_normalization=True)
    for loss, *expected in (
        (losses.BinaryCrossentropy(), "loss.from_logits", "value", False),
        (losses.CategoricalCrossentropy(), "loss.from_logits", "value", False),
        (lazy, "loss.lazy_normalization", "value", True),
        (losses.MeanSquaredError(), "loss", "type", "MeanSquaredError"),
    ):
        with refused(*expected):
            model.compile(DPSGD(1.0, 1.0, 1.0, 1.0), loss)
    with refused("classes", "range", 1):
        model_of([4, 1]).compile(DPSGD(1.0, 1.0, 1.0, 1.0), CategoricalCrossentropy())
    with refused("optimizer", "type", "SGD"):
        model.compile(optimizers.SGD(), BinaryCrossentropy())
    for name in ("metrics", "weighted_metrics"):
        with refused(name, "conflict", ["accuracy"]):
            model.compile(SGD(1.0), BinaryCrossentropy(), **{name: ["accuracy"]})
    with pytest.raises(ArgumentError) as caught:
        model.compile(SGD(1.0), BinaryCrossentropy(), ["accuracy"])
    assert caught.value.argument == "metrics"
    model_of([4, 2]).compile(SGD(1.0), BinaryCrossentropy(), metrics=[])
    with pytest.raises(GradientError, match="compile"):
        model.fit({}, {})
    for forbidden in (lambda: model.fit_batch(None, None), lambda: model.backward(None)):
        with pytest.raises(GradientError, match="fit"):
            forbidden()
    with pytest.raises(GradientError, match="traced step"):
        model.step_cost()
    stock = tfe.protocol.ABY3()
    tfe.set_protocol(stock)
    try:
        with refused("protocol", "type", "ABY3"):
            Sequential()
    finally:
        tfe.set_protocol(PROTOCOL)


def a_name_of_no_activation_or_layer_is_told():
    from tf_keras import Sequential as Clear
    from tf_keras import layers as clear_layers

    made = {
        "Activation": lambda name: layers.Activation(name),
        "Dense": lambda name: layers.Dense(2, activation=name),
        "Conv2D": lambda name: layers.Conv2D(2, 3, activation=name),
        "Keras": lambda name: Sequential.from_config(
            Clear([clear_layers.Dense(2, activation=name, input_shape=(4,))]).get_config()
        ),
    }
    for kind, make in made.items():
        for name in ("elu", "gelu") if kind == "Keras" else ("elu", "selu", "Relu", "", 3, b"relu"):
            with pytest.raises(ArgumentError) as caught:
                make(name)
            assert (caught.value.argument, caught.value.value) == ("activation", name)
    assert layers.Activation("relu").activation is not layers.Activation(None).activation
    with pytest.raises(UnsupportedLayerError, match="'dense'"):
        Sequential(["dense"])


def labels_are_numbers_of_any_kind():
    x, y = records(10)
    model = model_of([4, 2], optimizer=DPSGD(1.0, 1.0, 1.0, 0.5))
    for labels in (y.astype(object), list(y), y > 0):
        model.fit({"server0": x}, {"server0": labels}, steps=1, verbose=False)
    words = y.astype(str)
    for wrong in (words, words.astype(object), y * 1j):
        with refused("y", "type"):
            model.fit({"server0": x}, {"server0": wrong}, steps=1, verbose=False)


def a_summary_is_that_of_keras_and_opens_nothing():
    from tf_keras import Sequential as Clear

    images = [
        layers.Conv2D(3, 3, padding="same", activation="relu", batch_input_shape=[1, 6, 6, 2]),
        layers.AveragePooling2D(2),
        layers.Flatten(),
        layers.Dense(4, use_bias=False, activation="relu"),
        layers.Dense(2, name="last"),
    ]
    for model in (Sequential(images), model_of([4, 3, 2]), model_of([4, 1], bias=False)):
        lines = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(PROTOCOL), "reveal", None)
            model.summary(print_fn=lines.append)
        assert model.opened == 0
        _, *rows, last = lines
        clear = Clear.from_config(model.get_config())
        assert last == f"Total params: {clear.count_params()}"
        for row, layer in zip(rows, clear.layers, strict=True):
            shape = (None, *layer.output_shape[1:])
            said = [f"{layer.name} ({type(layer).__name__})", str(shape), str(layer.count_params())]
            assert row.split() == " ".join(said).split()
    Sequential().summary(print_fn=lines.append)
    assert lines[-1] == "Total params: 0"


def wrong_arguments_are_refused():
    x, y = records(10)
    good = {"learning_rate": 1.0, "l2_norm_clip": 1.0, "noise_multiplier": 1.0, "sample_rate": 0.5}
    for name, code, value in (
        ("learning_rate", "range", 0.0),
        ("l2_norm_clip", "range", -1.0),
        ("noise_multiplier", "range", -1.0),
        ("noise_multiplier", "range", np.inf),
        ("sample_rate", "range", 0.0),
        ("sample_rate", "range", 1.5),
        ("max_feature_norm", "range", 0.0),
        ("max_weight_norm", "range", np.nan),
        ("bias_scale", "value", 0.0),
        ("bias_scale", "range", 0.3),
    ):
        with refused(name, code, value):
            DPSGD(**{**good, name: value})
    model = model_of([4, 2], optimizer=DPSGD(**good))
    shared_x, shared_y = private(x), private(np.eye(2)[y])
    public, unusual = tfe.define_constant(x), np.where(x == x[0, 0], np.nan, x)
    unscaled = private(x.astype(np.int64), apply_scaling=False)
    given = functools.partial(vouch_for, max_feature_norm=1.0)
    cases = [
        ("x, y", "type", "ndarray, ndarray", (x, y)),
        ("y", "value", "of ['server1']", ({"server0": x}, {"server1": y})),
        ("x", "choice", "of nobody", ({"nobody": x}, {"nobody": y})),
        ("features", "data", "row 5", ({"server0": 9 * x}, {"server0": y})),
        ("features", "data", "row 0, column 0", ({"server0": unusual}, {"server0": y})),
        ("labels", "data", "row 1", ({"server0": x}, {"server0": y + 1})),
        ("x", "shape", "3 features at server0", ({"server0": x[:, :3]}, {"server0": y})),
        ("x, y", "type", "ABY3PrivateTensor, ABY3PrivateTensor", (shared_x, shared_y)),
        ("x", "value", "a private tensor", given(shared_x, shared_y)),
        ("x", "shape", (10, 3), given(shared_x[:, :3], shared_y)),
        ("y", "shape", (10, 1), given(shared_x, shared_y[:, :1])),
    ]
    for tensors, *expected in (
        ((public, shared_y), "x", "type", "ABY3Constant"),
        ((unscaled, shared_y), "x", "value", "an unscaled tensor"),
        ((shared_x, shared_y[:9]), "x, y", "shape", ((10, 4), (9, 2))),
    ):
        with refused(*expected):
            given(*tensors)
    for *expected, (features, labels) in cases:
        with refused(*expected):
            model.fit(features, labels, steps=1, verbose=False)
    for name, value in (("steps", 0), ("epochs", 0.0)):
        with refused(name, "range", value):
            model.fit({"server0": x}, {"server0": y}, verbose=False, **{name: value})
    for weights in ([np.zeros([4, 2])], [np.zeros([2, 4]), np.zeros([2])]):
        with refused("weights", "shape", [each.shape for each in weights]):
            model.set_weights(weights)
    with refused("weights", "range", np.nan):
        model.set_weights([np.full([4, 2], np.nan), np.zeros([2])])
    for norms in ((101.0, 0.0), (0.0, 101.0), (80.0, 80.0), (0.0, 2.0**22)):
        deep = model_of([4, 1, 2], optimizer=DPSGD(**good))
        first = [np.full([4, 1], norms[0] / 2), np.full([1], norms[1])]
        deep.set_weights([*first, *deep.get_weights()[2:]])
        with refused("model", "range", "with layer 0 of a larger norm"):
            deep.fit({"server0": x}, {"server0": y}, steps=1, verbose=False)
    hidden = model_of([4, 3, 2], optimizer=DPSGD(**{**good, "learning_rate": 50.0}))
    with pytest.raises(GradientError, match="max_weight_norm"):
        hidden.fit({"server0": x}, {"server0": y}, steps=100, verbose=False)
    assert not model.optimizer.ledger.phases, "nothing was spent"
    assert issubclass(UnsupportedLayerError, PeaError)


def memory_in_use() -> int:
    """Bytes of this process, once what is free has gone back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def steps_stay_as_fast_and_memory_as_small():
    """Steps run the one graph, with as many calls in the last 100 as in the first; 10 MB are noise.

    What a step of the graph takes of a processor depends on who else uses it.
    """
    x, y = records(300, features=64, classes=10)
    model = model_of([64, 10], optimizer=DPSGD(1.0, 1.0, 1.0, 0.1))
    each = {"server0": (x, y)}
    x, y = ({name: pair[i] for name, pair in each.items()} for i in (0, 1))
    calls, stamps, sizes = [0], [], []

    def count(*_):
        calls[0] += 1

    def note(_):
        if len(stamps) in (49, 449):
            sys.setprofile(None)
            sizes.append(memory_in_use())
            sys.setprofile(count)
        stamps.append(calls[0])

    with counted_graphs() as traced:
        model.fit(x, y, steps=450, verbose=False, callbacks=[after_steps(note)])
    sys.setprofile(None)
    assert traced() == 1
    first, last = (stamps[end] - stamps[end - 100] for end in (150, 448))
    assert 0 < last <= 1.01 * first, (first, last)
    before, after = sizes
    assert after - before < 10e6, sizes
