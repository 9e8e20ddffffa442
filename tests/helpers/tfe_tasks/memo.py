"""Tasks on the results that ABY3 keeps, beside the same class with TF Encrypted's own memory."""

import gc
from contextlib import contextmanager

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

import tfe_ext
from tests.helpers.tfe_tasks.session import CONFIG, PROTOCOL, graph, private, share_values
from tfe_ext.aby3.memo import KEPT_METHODS, NEVER_KEPT

import tf_encrypted as tfe
from tf_encrypted.protocol.aby3.aby3_tensors import ABY3PrivateTensor, ShareType
from tf_encrypted.protocol.protocol import memoize, nodes
from tf_encrypted.tensor import factories

X = np.array([1.5, -2.0])
HOST = tfe.protocol.ABY3
HOST_METHODS = {name: getattr(HOST, name) for name in [*KEPT_METHODS.split(), NEVER_KEPT]}
WithHostsMemory = type("WithHostsMemory", (tfe_ext.ABY3,), HOST_METHODS)


@contextmanager
def hosts_memory():
    """The same protocol, but with the methods that remember as in the host."""
    before = set(nodes)
    try:
        with WithHostsMemory(fixedpoint_config="f20") as protocol:
            yield protocol
    finally:
        for key in set(nodes) - before:
            del nodes[key]


def opened(x):
    return x.reveal().to_native()


def _trace_twice():
    x = private(X)
    run = graph(lambda y: (opened(x * x), y))
    for size in (1, 2):
        np.testing.assert_allclose(run(tf.zeros([size]))[0], X * X, atol=1e-5)


def every_method_that_the_host_remembers_is_named():
    wrapper = memoize(lambda protocol: None).__code__
    methods = {name: getattr(HOST, name) for name in dir(HOST)}
    remembered = {n for n, method in methods.items() if getattr(method, "__code__", 0) is wrapper}
    assert remembered == set(HOST_METHODS)


def functions_are_traced_anew():
    with hosts_memory(), pytest.raises(Exception, match="out of scope"):
        _trace_twice()
    _trace_twice()


def _alive(kind):
    gc.collect()
    return sum(isinstance(thing, kind) for thing in gc.get_objects())


def _call(times):
    for _ in range(times):
        x = private(X)
        opened(x * 3 + x)
        graph(lambda x=x: opened(x * 4 + x))()


def _growth():
    _call(2)
    before = [len(nodes), _alive(ABY3PrivateTensor), _alive(FuncGraph)]
    _call(5)
    after = [len(nodes), _alive(ABY3PrivateTensor), _alive(FuncGraph)]
    return [b - a for a, b in zip(before, after, strict=True)]


def nothing_grows():
    with hosts_memory():
        kept, tensors, graphs = _growth()
        assert kept >= 10
        assert tensors >= 10
        assert graphs >= 5
    assert _growth() == [0, 0, 0]


def _zeros_of_two(second):
    @graph
    def run():
        first = PROTOCOL.zeros((2,)) if type(second) is tfe_ext.ABY3 else tfe.zeros((2,))
        assert second.zeros((2,)).prot is second
        return share_values(first)

    run()


def protocols_are_told_apart():
    servers = [CONFIG.players[i] for i in (1, 2, 0)]
    with hosts_memory(), pytest.raises(AssertionError):
        _zeros_of_two(WithHostsMemory(*servers))
    _zeros_of_two(tfe_ext.ABY3(*servers))


def _changed_operand():
    @graph
    def run():
        addend = np.zeros(5000)
        x = private(np.zeros(5000))
        before = x + addend
        addend[2500] = 1.0
        return opened(x + addend - before)

    assert np.sum(run()) == 1.0


def operands_are_told_apart():
    with hosts_memory(), pytest.raises(AssertionError):
        _changed_operand()
    _changed_operand()

    @graph
    def run():
        x = private(X)
        assert tfe.pow(x, 2) is not tfe.pow(x, 3)
        assert x[0:1] is x[0:1]
        assert x[0:1] is not x[1:2]
        assert tfe.expand_dims(x, axis=0) is not tfe.expand_dims(x, axis=False)
        return share_values(x)

    run()


def one_graph_computes_once():
    @graph
    def run():
        x = private(X)
        assert x * x is x * x
        assert tfe.sigmoid(x) is tfe.sigmoid(x)
        assert x * x is not private(X) * x
        inner = tf.while_loop(
            lambda i, y: i < 1,
            lambda i, y: (i + 1, y + opened(x * x)),
            (0, tf.zeros([2], "double")),
        )
        return opened(x * x), inner[1]

    for result in run():
        np.testing.assert_allclose(result, X * X, atol=1e-5)
    x = private(X)
    assert x * x is not x * x


def variables_have_their_present_value():
    first, second = np.array([1.0, 2.0]), np.array([3.0, -4.0])
    for make in (tfe.define_private_variable, tfe.define_public_variable):
        variable = make(first)
        shown = opened if make == tfe.define_private_variable else lambda x: x.to_native()
        replacement = private(second)
        if make == tfe.define_public_variable:
            replacement = replacement.reveal()
        run = graph(lambda variable=variable, shown=shown: shown(variable + variable))
        for compute in (run, lambda variable=variable, shown=shown: shown(variable + variable)):
            tfe.assign(variable, make(first))
            np.testing.assert_allclose(compute(), 2 * first, atol=1e-5)
            tfe.assign(variable, replacement)
            np.testing.assert_allclose(compute(), 2 * second, atol=1e-5)

        @graph
        def both(variable=variable, shown=shown):
            before = shown(variable + variable)
            tfe.assign(variable, variable + variable)
            between = shown(variable + variable)
            tfe.assign(variable, variable + variable)
            return before, between, shown(variable + variable)

        for factor, result in zip((2, 4, 8), both(), strict=True):
            np.testing.assert_allclose(result, factor * second, atol=1e-4)
    bits = [private([True, False], apply_scaling=False, **_bits()) for _ in range(2)]
    variable = tfe.define_private_variable(bits[0], apply_scaling=False, **_bits())
    tfe.assign(variable, ~variable)
    np.testing.assert_array_equal(opened(variable), [False, True])


def _bits():
    return {"share_type": ShareType.BOOLEAN, "factory": factories[tf.bool]}


def draws_are_never_kept():
    """What draws, or takes functions that may, gives other shares though its operands are equal."""

    def body(i, x):
        return i + 1, x + PROTOCOL._gen_random_sharing([2])

    @graph
    def run():
        x, zero = private(X), tf.constant(0)
        draws = {
            "input": lambda: private(X),
            "random": lambda: PROTOCOL._gen_random_sharing([2]),
            "loop": lambda: tfe.while_loop(_less_than_two, body, [zero, x])[1],
        }
        return {name: [share_values(draw()) for _ in range(2)] for name, draw in draws.items()}

    for name, (one, other) in run().items():
        pairs = zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True)
        assert not any(np.any(a == b) for a, b in pairs), name


def _less_than_two(i, x):
    return i < 2
