"""Tasks on the hardened ABY3: what it computes, and how it masks."""

import functools
import operator

import numpy as np
import pytest
import tensorflow as tf

import tfe_ext
from extensions.errors import ArgumentError, InsecureError, PeaError
from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.session import (
    CONFIG,
    DEVICES,
    OTHER,
    OWNER,
    PROTOCOL,
    assert_replicated,
    graph,
    messages,
    private,
    share_values,
)
from tfe_ext.aby3 import operations

import tf_encrypted as tfe
from tf_encrypted.protocol.aby3.aby3_tensors import ShareType
from tf_encrypted.tensor import factories
from tf_encrypted.tensor.fixed import FixedpointConfig, fixed100

ULP = 2.0**-20
X = np.array([[1.5, -2.25, 3.0], [0.5, 100.0, -0.125]])
Y = np.array([2.0, -3.0, 4.7])
POSITIVE = np.array([0.01, 0.5, 1.0, 2.0, 7.3, 250.0])
WORDS = np.array([0, 1, -1, 2**62, -(2**63), 0x425F32EA92, -0x123456789ABCDEF])


def compute(functions):
    """The opened results of computations on shares, traced as one, after a look at their places."""

    @graph
    def run():
        results = [function() for function in functions]
        for result in results:
            places = [{share.value.device for share in pair} for pair in result.unwrapped]
            assert places == [{device} for device in DEVICES], places
        return [(share_values(y), y.reveal().to_native()) for y in results]

    results = run()
    for shares, _ in results:
        assert_replicated(shares)
    return [opened.numpy() for _, opened in results]


def arithmetic():
    assert_computed(
        {
            "mul, broadcast": (lambda: private(Y) * private(X, OTHER), X * Y, 106),
            "matmul": (lambda: tfe.matmul(private(X), private(X.T)), X @ X.T, 210),
            "truncate": (lambda: tfe.truncate(private(X), amount=2), X / 4, 2),
            "b2a of 40 bits": (lambda: tfe.b2a(tfe.a2b(private(POSITIVE)), 40), POSITIVE, 1),
        }
    )


def further_arithmetic():
    assert_computed(
        {
            "mul": (lambda: private(X) * private(Y, OTHER), X * Y, 106),
            "square": (lambda: private(X) * private(X), X * X, 202),
            "mul_trunc2": (lambda: tfe.mul_trunc2(private(X), private(Y)), X * Y, 106),
            "local": (lambda: tfe.truncate(private(X), method="local", amount=2), X / 4, 2),
            "msb0": (lambda: tfe.truncate_msb0(private(POSITIVE), amount=3), POSITIVE / 8, 2),
            "a2b, b2a": (lambda: tfe.b2a(tfe.a2b(private(X))), X, 1),
        }
    )


def assert_computed(cases):
    results = compute([function for function, _, _ in cases.values()])
    for (name, (_, expected, ulps)), opened in zip(cases.items(), results, strict=True):
        error = np.abs(opened - expected).max() / ULP
        assert error <= ulps, (name, error)


A = np.array([-5.0, -ULP, 0.0, ULP, 3.0, 3.0])
B = np.array([5.0, 0.0, 0.0, 0.0, 3.0, 2.0])


def comparisons():
    (less,) = compute([lambda: tfe.less_than(private(A), private(B))])
    np.testing.assert_array_equal(less, A < B)


def further_comparisons():
    negative, greater, selected = compute(
        [
            lambda: tfe.msb(private(A)),
            lambda: tfe.greater_than(private(A), private(B)),
            lambda: private(A) * tfe.msb(private(B - A)),
        ]
    )
    np.testing.assert_array_equal(negative, A < 0)
    np.testing.assert_array_equal(greater, A > B)
    np.testing.assert_allclose(selected, A * (B < A), atol=ULP)


def functions():
    inverse_root, sigmoid = compute(
        [lambda: tfe.inv_sqrt(private(POSITIVE)), lambda: tfe.sigmoid(private(Y))]
    )
    np.testing.assert_allclose(inverse_root, POSITIVE**-0.5, rtol=2e-3, atol=1e-4)
    # The host's sigmoid has linear pieces.
    np.testing.assert_allclose(sigmoid, 1 / (1 + np.exp(-Y)), atol=0.04)


def _pick(word, start, stride):
    return sum((word >> place & 1) << i for i, place in enumerate(range(start, 64, stride)))


def _xor_of_places(word):
    return functools.reduce(operator.xor, (i for i in range(64) if word >> i & 1), 0)


def bit_operations():
    unsigned = [int(word) & (2**64 - 1) for word in WORDS]

    def boolean():
        return private(WORDS, apply_scaling=False, share_type=ShareType.BOOLEAN)

    cases = [
        (
            lambda: tfe.bit_split_and_gather(boolean(), 2),
            [[_pick(w, i, 2) for w in unsigned] for i in (0, 1)],
        ),
        (lambda: tfe.bit_reverse(boolean()), [int(f"{w:064b}"[::-1], 2) for w in unsigned]),
        (lambda: tfe.xor_indices(boolean()), [_xor_of_places(w) for w in unsigned]),
    ]
    for stride in (1, 4, 64):
        for start in {0, stride // 2, stride - 1}:
            cases.append(
                (
                    lambda start=start, stride=stride: tfe.bit_gather(boolean(), start, stride),
                    [_pick(w, start, stride) for w in unsigned],
                )
            )
    results = compute([function for function, _ in cases])
    for (_, expected), opened in zip(cases, results, strict=True):
        np.testing.assert_array_equal(opened.view(np.uint64), np.array(expected, np.uint64))
    for dtype, width in ((tf.int8, 8), (tf.int16, 16), (tf.int32, 32)):
        some = tf.constant([-1, -(1 << (width - 1)), 5, 0x5A], dtype)
        np.testing.assert_array_equal(operations.bit_reverse(operations.bit_reverse(some)), some)
        assert operations.bit_reverse(some)[1] == 1
        assert operations.xor_indices(some)[1] == width - 1
        np.testing.assert_array_equal(operations.bit_split_and_gather(some, 2)[:, 3], [0xC, 0x3])
    for start, stride in ((0, 3), (0, 0), (2, 2), (-1, 2), (0, 128)):
        with pytest.raises(ArgumentError) as caught:
            operations.bit_gather(tf.constant([1], tf.int64), start, stride)
        assert caught.value.argument in ("start", "stride")


def _sharings():
    """Inputs and results whose shares are masked."""
    x, y = private(X), private(Y)
    return {
        "input": x,
        "random": PROTOCOL._gen_random_sharing([4]),
        "mul": x * y,
        "matmul": tfe.matmul(x, private(X.T)),
        "a2b": tfe.a2b(x),
        "b2a": tfe.b2a(tfe.a2b(x)),
        "and": tfe.a2b(x) & tfe.a2b(x),
        "mul_ab": y * tfe.msb(y),
    }


def calls_differ():
    """No share of one call of a function occurs in another call at its place.

    64-bit shares: a false alarm has a probability below 3 * 200 / 2^64.
    """

    def shares():
        return {name: share_values(x) for name, x in _sharings().items()}

    run = graph(shares)
    calls = [run(), run(), shares(), graph(lambda: {"input": share_values(private(X))})()]
    for i, first in enumerate(calls):
        for second in calls[:i]:
            for name in first:
                pairs = zip(*map(tf.nest.flatten, (first[name], second[name])), strict=True)
                assert not any(np.any(a == b) for a, b in pairs), name
    variables = [tfe.define_private_variable(tf.constant(X)) for _ in range(2)]
    for variable in variables:
        np.testing.assert_allclose(variable.reveal().to_native(), X, atol=ULP)
    assert not np.any(variables[0].unwrapped[0][0].value == variables[1].unwrapped[0][0].value)


def steps_of_a_loop_differ():
    x = X.astype(np.int64)

    @graph
    def run():
        def body(i, kept):
            product = private(x, apply_scaling=False) * private(x, apply_scaling=False)
            return i + 1, kept.write(i, product.unwrapped[0][0].value)

        kept = tf.TensorArray(tf.int64, 6)
        return tf.while_loop(lambda i, kept: i < 6, body, (0, kept))[1].stack()

    first_shares = run().numpy()
    assert len(np.unique(first_shares)) == first_shares.size


def outputs_are_masked_one_by_one():
    """Copies of one sharing, multiplied by one value: only the masks tell the outputs apart."""

    def given(shape, boolean=False):
        kind = ShareType.BOOLEAN if boolean else ShareType.ARITHMETIC
        return private(np.zeros(shape, np.int64), apply_scaling=False, share_type=kind)

    def copies(x):
        return tfe.concat([x] * 50, axis=0)

    def shares():
        results = [
            given([1]) * copies(given([1])),
            copies(given([1])) * given([1]),
            given([1], True) & copies(given([1], True)),
            tfe.matmul(given([1, 1, 3]), copies(given([1, 3, 2]))),
        ]
        return [share_values(result) for result in results]

    for sharing in graph(shares)():
        for share in tf.nest.flatten(sharing):
            assert len(np.unique(share)) == np.size(share)


def small_types_are_masked():
    """The shares of zero bytes are spread over all values: 2000 draws leave out few of 256.

    A uniform draw leaves out a given value with probability (1 - 1/256)^2000 = 4e-4, so 20 of 256
    with probability below C(256, 20) * 4e-4^20 < 1e-38.
    """
    zeros = np.zeros([2000], np.int64)

    @graph
    def run():
        kind = {"apply_scaling": False, "share_type": ShareType.BOOLEAN}
        x = private(zeros, factory=factories[8], **kind)
        y = private(zeros, factory=factories[8], **kind)
        return share_values(x & y)

    for share in tf.nest.flatten(run()):
        assert share.dtype == tf.int8
        assert len(np.unique(share)) > 236


def only_public_numbers_are_sent_for_masks():
    @graph
    def run():
        masks = PROTOCOL._gen_zero_sharing([1000])
        sums = []
        for server, mask in zip(DEVICES, masks, strict=True):
            with tf.device(server):
                sums.append(tf.reduce_sum(mask.value))
        return sums

    sent = messages(run)
    between = [message for message in sent if message[0] in DEVICES and message[1] in DEVICES]
    assert len(between) == 3, between
    assert {dtype for _, _, dtype, _ in between} == {tf.uint32}
    assert all("Bitcast" in name for *_, name in between), between
    sums = run()
    assert tf.add_n(sums) == 0
    assert all(part != 0 for part in sums)


def host_loops_compute():
    base = np.array([1.5, -1.1])

    @graph
    def run():
        state = [tf.constant(0), private(base)]
        _, x = tfe.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * x), state)
        return share_values(x), x.reveal().to_native()

    (first, opened), (second, _) = run(), run()
    np.testing.assert_allclose(opened, base**8, atol=100 * ULP)
    assert_replicated(first)
    assert not np.any(first[0][0] == second[0][0])


def reset_changes_the_keys():
    run = graph(lambda: share_values(private(X) * private(Y)))
    protocol_keys = [
        key.numpy() for s in PROTOCOL.ring.servers.pairwise for key in s._keys.values()
    ]
    before = run()
    PROTOCOL.reset()
    after = run()
    assert_replicated(after)
    assert not np.any(before[0][0] == after[0][0])
    new_keys = [key.numpy() for s in PROTOCOL.ring.servers.pairwise for key in s._keys.values()]
    assert not any(np.array_equal(a, b) for a, b in zip(protocol_keys, new_keys, strict=True))


def protocols_take_turns():
    other = tfe_ext.ABY3()
    with other:
        assert tfe.get_protocol() is other
        assert other.fixedpoint_config.precision_fractional == 16
        (opened,) = compute([lambda: private(X) * private(Y)])
    assert tfe.get_protocol() is PROTOCOL
    assert PROTOCOL.fixedpoint_config.precision_fractional == 20
    np.testing.assert_allclose(opened, X * Y, atol=106 * 2.0**-16)


def operands_of_another_protocol_are_refused():
    other = tfe_ext.ABY3(fixedpoint_config="f20")
    x, stranger = private(X), other.define_private_input(OWNER, lambda: tf.constant(X))
    for method, compute in (
        ("add", lambda: x + stranger),
        ("mul", lambda: stranger * x),
        ("matmul", lambda: tfe.matmul(x, stranger)),
        ("concat", lambda: tfe.concat([x, stranger], axis=0)),
        ("sigmoid", lambda: tfe.sigmoid(stranger)),
    ):
        with refused(f"operand of {method}", "value"):
            graph(lambda compute=compute: share_values(compute()))()
    np.testing.assert_allclose((stranger + stranger).reveal().to_native(), 2 * X, atol=ULP)


def unsuitable_arguments_are_refused():
    for config in ("high", "h", "f99"):
        with refused("fixedpoint_config", "choice", value=config):
            tfe_ext.ABY3(fixedpoint_config=config)
    with refused("fixedpoint_config.nbits", "range", 100):
        tfe_ext.ABY3(fixedpoint_config=fixed100)
    for field, value in (("scaling_base", 10), ("precision_fractional", 31), ("nbits", 32)):
        config = FixedpointConfig(**{**vars(tfe_ext.fixed64_f20), field: value})
        with refused(f"fixedpoint_config.{field}", "range", value):
            tfe_ext.ABY3(fixedpoint_config=config)
    names = ["server0", "server1", "server1"]
    with refused("server_0, server_1, server_2", "value", names):
        tfe_ext.ABY3(*names)
    with refused("factory", "value", factories[128]):
        private(X, factory=factories[128])
    with pytest.raises(InsecureError, match="cheetah"):
        tfe.truncate_msb0(private(POSITIVE), method="cheetah")
    with refused("player", "choice", value="nobody"):
        CONFIG.get_player("nobody")
    with refused("players", "value", ("server1",)):
        tfe_ext.local_config("server1")
    with pytest.raises(PeaError, match="needs 10 logical CPUs"):
        tfe_ext.local_config(*"abcdef")
    assert [p.device_name for p in tfe_ext.local_config(OWNER).players[:3]] == DEVICES
    assert len({player.device_name for player in CONFIG.players}) == 5
