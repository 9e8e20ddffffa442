"""Tasks on models of the host's layers that start from what owners trained locally."""

import numpy as np
import tensorflow as tf

from extensions.layers.spec import ModelSpec
from extensions.privacy.randomness import SystemSource
from extensions.protocols.host import share_public
from extensions.protocols.pea import public_start
from extensions.ring.fixed_point import encode
from extensions.runs.config import TrainConfig
from tests.helpers.refused import refused
from tests.helpers.rival_models import rivals
from tests.helpers.tfe_tasks.keras import F, model_of
from tests.helpers.tfe_tasks.session import (
    CONFIG,
    DEVICES,
    OTHER,
    OWNER,
    PROTOCOL,
    graph,
    operations,
    private,
    sent_by,
)
from tfe_ext.keras import DPSGD, BinaryCrossentropy
from tfe_ext.run.host import ABY3Host

X = np.eye(5)[[0, 1, 2, 0, 1, 2]] * 0.5
Y = np.array([0, 1, 2, 0, 1, 2])
SCALE = 0.7310585
RIGHT = [np.rint(np.ldexp(SCALE, 20)) * 2.0**-20 * np.eye(5, 3), np.zeros(3)]
WRONG = [-RIGHT[0], np.ones(3)]
MODELS = {"right": RIGHT, "wrong": WRONG}
OWNERS = ("server2", OWNER, "server0")
HELD_OUT = ({"server1": X[:4], OWNER: X[4:]}, {"server1": Y[:4], OWNER: Y[4:]})


def zeros(widths=(5, 3), activation="relu"):
    """A chain of Dense layers whose weights are zero."""
    model = model_of(list(widths), activation=activation)
    model.set_weights([np.zeros(weight.shape) for weight in model.get_weights()])
    return model


def initialized(names, **options):
    """The cost, the opened weights and the nodes of all graphs of a start from named models."""
    model, costs = zeros(), []
    local = dict(zip(OWNERS, (MODELS[name] for name in names), strict=True))
    counts = dict.fromkeys(local, 1)
    nodes = operations(lambda: costs.append(model.initialize_from(local, counts, **options)))
    return costs[0], model.get_weights(), nodes


def the_best_local_model_is_taken():
    """Owners are servers and others. Only they send, and only servers receive.

    No constant of any device's graph holds a value of a local model; a graph that has it is found.
    """
    names = ("wrong", "right", "wrong")
    cost, (kernel, bias), nodes = initialized(names, strategy="local-accuracy", held_out=HELD_OUT)
    np.testing.assert_array_equal(kernel, RIGHT[0])
    np.testing.assert_array_equal(bias, RIGHT[1])
    assert cost.rounds == 19, cost
    sent = sent_by(nodes)
    owner = CONFIG.get_player(OWNER).device_name
    assert {receiver for _, receiver, *_ in sent} == set(DEVICES)
    assert {sender for sender, *_ in sent} == {*DEVICES, owner}
    secret = encode(SCALE, F)

    @graph
    def careless():
        with tf.device(DEVICES[1]):
            return tf.random.uniform([3], maxval=9, dtype=tf.int64) * secret

    for one, found in ((nodes, False), (operations(careless), True)):
        constants = [tf.make_ndarray(n.attr["value"].tensor) for n in one if n.op == "Const"]
        whole = [values for values in constants if values.dtype == np.int64]
        assert whole
        assert any(np.any(np.abs(values) == secret) for values in whole) == found


def the_average_and_the_start_compete_with_local_models():
    """Held-out records may be private tensors."""
    model = zeros()
    local = {"server0": WRONG, "server1": WRONG, OTHER: RIGHT}
    tried = (private(X), private(np.eye(3)[Y]))
    cost = model.initialize_from(local, dict.fromkeys(local, 7), held_out=tried)
    np.testing.assert_array_equal(model.get_weights()[0], RIGHT[0])
    assert cost.rounds == 21


def an_average_is_weighted_as_asked():
    local = {"server0": RIGHT, "server1": WRONG}
    counts = {"server0": 3, "server1": 1}
    for weighting, share in (("records", 0.75), ("uniform", 0.5)):
        model = zeros()
        cost = model.initialize_from(local, counts, strategy="local-average", weighting=weighting)
        kernel, bias = model.get_weights()
        np.testing.assert_allclose(kernel, (2 * share - 1) * RIGHT[0], rtol=0, atol=2.0**-F)
        np.testing.assert_allclose(bias, (1 - share) * WRONG[1], rtol=0, atol=2.0**-F)
        assert (cost.rounds, cost.outside) == (2, 0)


def candidates_are_tried_with_the_activations_that_the_model_has():
    x, y, models = rivals()
    started = zeros((5, 4, 3), "sigmoid")
    started.initialize_from(
        {"server0": models[0], "server1": models[1]},
        {"server0": 1, "server1": 1},
        strategy="local-accuracy",
        held_out=({"server2": x}, {"server2": y}),
    )
    for own, part in zip(started.get_weights(), models[1], strict=True):
        np.testing.assert_array_equal(own, encode(part, F) * 2.0**-F)


def a_start_after_steps_is_checked_as_one_before_them():
    bounded = DPSGD(0.1, 1.0, 1.0, 0.5, max_weight_norm=40.0)
    model = model_of([5, 4, 3], optimizer=bounded)
    records = {"server0": X}, {"server0": Y}
    model.fit(*records, steps=1, verbose=False)
    local = [np.full((5, 4), 50 / 20**0.5), np.zeros(4), np.zeros((4, 3)), np.zeros(3)]
    model.initialize_from({"server0": local}, {"server0": 6}, strategy="local-average")
    with refused("model", "range", value="with layer 0 of a larger norm"):
        model.fit(*records, steps=1, verbose=False)


def a_public_start_is_the_one_that_is_named():
    host = ABY3Host(PROTOCOL, SystemSource())
    for start in ("zero", "random"):
        expected = ModelSpec.parse("logistic", 5, 3).initial_parameters(start)[0]
        settings = TrainConfig(backend="tfe", private=False, classes=3, init=start)
        opened = host.open(host.summands(share_public(host, public_start(settings, 5))))
        for own, part in zip(opened, expected, strict=True):
            np.testing.assert_array_equal(own, encode(part, F))
        assert np.any(expected[0]) == (start == "random")


def what_does_not_fit_is_refused():
    huge = [np.full((5, 3), 100.0), np.zeros(3)]
    nan = [np.full((5, 3), np.nan), np.zeros(3)]
    good = {"local": {"server0": RIGHT}, "records": {"server0": 5}, "held_out": HELD_OUT}
    cases = [
        ("value", "a layer of norm 387.3", {"local": {"server0": huge}}),
        ("value", "a layer of norm nan", {"local": {"server0": nan}}),
        ("shape", "[(5, 3)] at server0", {"local": {"server0": RIGHT[:1]}}),
        ("shape", "[(3, 5), (3,)] at server0", {"local": {"server0": [RIGHT[0].T, RIGHT[1]]}}),
        ("choice", "of nobody", {"local": {"nobody": RIGHT}, "records": {"nobody": 5}}),
        ("type", "list", {"local": RIGHT}),
        ("type", "dict", {"local": {}}),
        ("value", {"server1": 5}, {"records": {"server1": 5}}),
        ("value", {}, {"records": {}}),
        ("value", 5, {"records": 5}),
        ("value", [0], {"records": {"server0": 0}}),
        ("choice", "best", {"strategy": "best"}),
        ("choice", "loud", {"weighting": "loud"}),
        ("conflict", "uniform", {"weighting": "uniform", "strategy": "local-accuracy"}),
        ("missing", None, {"held_out": None}),
        ("missing", None, {"held_out": None, "strategy": "local-accuracy"}),
    ]
    held_out = [
        ("x", "shape", "4 features at server1", ({"server1": X[:, :4]}, {"server1": Y})),
        ("y", "value", "of ['server0']", ({"server1": X}, {"server0": Y})),
    ]
    model = zeros()
    for argument, code, value, wrong in (
        *((next(iter(wrong)), code, value, wrong) for code, value, wrong in cases),
        *((name, code, value, {"held_out": given}) for name, code, value, given in held_out),
    ):
        given = {**good, **wrong}
        with refused(argument, code, value):
            model.initialize_from(given.pop("local"), given.pop("records"), **given)
    assert not any(np.any(weight) for weight in model.get_weights())
    model.compile(DPSGD(1.0, 1.0, 1.0, 1.0, max_feature_norm=0.1), BinaryCrossentropy())
    with refused("features", "data", "row 0"):
        model.initialize_from(good["local"], good["records"], held_out=HELD_OUT)
    bare = model_of([5, 3], bias=False)
    with refused("model", "value", "a Dense layer without bias"):
        bare.initialize_from({"server0": RIGHT[:1]}, {"server0": 1}, strategy="local-average")
