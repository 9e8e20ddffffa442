"""Tasks on the count of rounds and bytes: against known costs, and against what is really sent."""

import numpy as np
import tensorflow as tf

import tfe_ext
from tests.conformance.budgets.test_budgets_aby3 import clip_factor
from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.session import (
    DEVICES,
    PROTOCOL,
    graph,
    messages,
    private,
    share_values,
)
from tfe_ext.costs.cost import NODE
from tfe_ext.costs.graph_walk import peaks
from tfe_ext.streams.devices import HERE

import tf_encrypted as tfe

N = 10


def unscaled(shape):
    return private(np.ones(shape, np.int64), apply_scaling=False)


def known_costs_of_the_host():
    """Rounds and bytes an element of an output, from the papers: one message a server a round."""
    x, y = unscaled([N]), unscaled([N])
    a, b = unscaled([3, 7]), unscaled([7, 2])
    cases = {
        "mul": (lambda: x * y, 1, 24 * N),
        "two at once": (lambda: [x * y, x * x], 1, 2 * 24 * N),
        "two in turn": (lambda: (x * y) * x, 2, 2 * 24 * N),
        "matmul": (lambda: tfe.matmul(a, b), 1, 24 * 3 * 2),
        "a function of the host's": (lambda: tfe.function(lambda z: z * y)(x), 1, 24 * N),
        "local": (lambda: [x + y, -x, x[1:]], 0, 0),
        "a2b": (lambda: tfe.a2b(x), 8, 312 * N),
        "less_than": (lambda: tfe.less_than(x, y), 8, 105 * N),
    }
    for name, (function, rounds, size) in cases.items():
        cost = tfe_ext.cost(function)
        assert (cost.rounds, cost.bytes) == (rounds, size), (name, cost)
        assert cost.outside == 0
        assert cost.rounds <= cost.rounds_from_start <= cost.rounds + 1
    cost = tfe_ext.cost(tfe.matmul, a, b)
    assert cost.sent == (48, 48, 48)
    assert cost.messages == 3
    assert cost.numbers == 3


def costs_of_ours():
    x = private(np.ones(N))
    norms = private(np.ones((N, 3)))
    one, row, factor = 8 * N, 3, 8 * clip_factor(N, 2).words
    shifted = 8 * clip_factor(N, 2, shifted=True).words
    cases = {
        "inverse_sqrt": (lambda: tfe.inverse_sqrt(x), 13, (170 + 2) * one),
        "degree 2": (lambda: tfe.inverse_sqrt(x, degree=2), 12, (156 + 2) * one),
        "clip_factor": (lambda: tfe.clip_factor(x), 7, factor + 2 * one),
        "clip_factor, 0.7": (lambda: tfe.clip_factor(x, 0.7), 7, shifted + 2 * one),
        "gaussian_noise": (lambda: tfe.gaussian_noise(N, 1.0), 1, 3 * one),
        "clip_by_norm": (
            lambda: tfe.clip_by_norm(norms, 1.0),
            9,
            shifted + (1 + 6 + row * (2 + 2 + 4 + 2)) * one,
        ),
        "clip_by_norm, 2^-5": (
            lambda: tfe.clip_by_norm(norms, 2.0**-5),
            9,
            factor + (1 + 6 + row * (2 + 2 + 4 + 2)) * one,
        ),
    }
    for name, (function, rounds, size) in cases.items():
        cost = tfe_ext.cost(function)
        assert (cost.rounds, cost.bytes) == (rounds, size), (name, cost)
        assert cost.rounds_from_start == rounds + 1
    with tfe_ext.ABY3():
        x = private(np.ones(N))
        assert tfe_ext.cost(tfe.inverse_sqrt, x).bytes == (158 + 2) * one
        ours, hosts = (tfe_ext.cost(f, x) for f in (tfe.inverse_sqrt, tfe.inv_sqrt))
    assert ours.rounds <= 20 < hosts.rounds == 37
    assert ours.bytes <= 2_700 * N < hosts.bytes


def what_is_counted_is_what_is_sent():
    x = private(np.ones(N))
    for function in (lambda x: x * x, tfe.inverse_sqrt):
        cost = tfe_ext.cost(function, x)
        assert cost.messages + cost.numbers == _sent_between_servers(function, x)


def _sent_between_servers(function, x):
    sent = messages(graph(lambda: share_values(function(x))))
    return sum(sender in DEVICES and receiver in DEVICES for sender, receiver, *_ in sent)


def loops_count_as_often_as_they_turn():
    x = unscaled([N])
    once = tfe_ext.cost(lambda: x * x)

    def turns(condition, step=1):
        state = [tf.constant(0), x]
        return lambda: tfe.while_loop(condition, lambda i, y: (i + step, y * x), state)[1]

    for function, count in [
        (turns(lambda i, y: i < 5), 5),
        (turns(lambda i, y: i < 5, step=2), 3),
        (turns(lambda i, y: i < 0), 0),
    ]:
        cost = tfe_ext.cost(function)
        assert cost.rounds == count
        assert cost.bytes == count * once.bytes
        assert cost.outside == 0
    with refused("function", "value", value="while_op"):
        tfe_ext.cost(turns(lambda i, y: i != 5))


def shares_stay_where_they_are():
    """In loops, and where a function returns them; what does travel to the client is counted."""
    x = unscaled([N])

    def loop():
        state = [tf.constant(0), x, x]
        return share_values(tfe.while_loop(lambda i, y, z: i < 3, turn, state)[1])

    def turn(i, y, z):
        return i + 1, y * z, z

    def native(returned):
        """The same with one share in TensorFlow's own loop."""

        def turn(i, y):
            with tf.device(DEVICES[0]):
                doubled = y + y
            return i + 1, returned(doubled)

        with tf.device(DEVICES[0]):
            share = tf.identity(x.unwrapped[0][0].value)
        _, doubled = tf.while_loop(lambda i, y: i < 3, turn, [tf.constant(0), share])
        with tf.device(DEVICES[0]):
            return tf.identity(doubled)

    def at_the_client(y):
        with tf.device(HERE):
            return y + 1

    for function, ways in (
        (loop, 0),
        (lambda: native(lambda y: y), 0),
        (lambda: native(at_the_client), 2),
    ):
        assert tfe_ext.cost(function).outside == 3 * ways * 8 * N
        sent = [ends for *ends, dtype, _ in messages(graph(function)) if dtype == tf.int64]
        assert sum(HERE in ends for ends in sent) == ways


def conditionals_count_as_their_dearer_branch():
    x, flag = unscaled([N]), tf.Variable(True)
    once = tfe_ext.cost(lambda: x * x)

    def choose():
        return tf.cond(flag, lambda: shares_of(x), lambda: shares_of(x * x))

    def shares_of(y):
        return tf.nest.flatten(share_values(y))

    cost = tfe_ext.cost(choose)
    assert (cost.rounds, cost.bytes) == (once.rounds, once.bytes)


def others_are_counted_apart():
    x = private(np.ones(N))
    cost = tfe_ext.cost(lambda x: (x + x).reveal().to_native(), x)
    assert cost.rounds <= 1
    shared = tfe_ext.cost(lambda: private(np.ones(N)))
    assert shared.rounds == 0
    assert shared.outside > 2 * 8 * N


def unsuitable_functions_are_refused():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    def sends(values):
        with tf.device(DEVICES[0]):
            values = values + 1
        with tf.device(DEVICES[1]):
            return tf.identity(values)

    variable = tf.Variable([1, 2], dtype=tf.int64)
    with refused("function", "shape", value="values:0"):
        tfe_ext.cost(lambda: sends(variable.read_value()))
    try:
        tfe.set_protocol(None)
        with refused("protocol", "value"):
            tfe_ext.cost(lambda: tf.constant(1))
    finally:
        tfe.set_protocol(PROTOCOL)


def memory_is_what_is_waited_for():
    """Of 8,000 bytes each: what is needed later, on its own device, once where it is shared."""
    own, other = DEVICES[:2]
    with tf.device(own):
        given = tf.Variable(tf.ones([1000], tf.int64))

    def chain():
        with tf.device(own):
            first = given.read_value() + 1
            second = tf.reshape(first, [10, 100]) * 2
            return tf.reduce_sum(tf.reshape(second, [-1]) - 3)

    def parted():
        with tf.device(own):
            first = given.read_value() + 1
            found = (first * 2) + (first * 3)
        with tf.device(other):
            return tf.reduce_sum(tf.negative(found))

    def called():
        with tf.device(own):
            first = given.read_value() + 1
            twice = tf.function(lambda: first * 2 - 3 * first, autograph=False)()
            return tf.reduce_sum(twice + first)

    traced = [graph(function).get_concrete_function() for function in (chain, parted, called)]
    kept = [peaks(each.graph) for each in traced]
    assert [each[own] for each in kept] == [16_000, 24_000, 32_000]
    assert kept[1][other] == 8_000 + 8
    x = unscaled([1000])
    cost = tfe_ext.cost(lambda: x * x)
    assert cost.memory is not None
    assert 3 * 8_000 < cost.memory - NODE * cost.nodes < 20 * 8_000
    assert cost.then(cost).memory is None
