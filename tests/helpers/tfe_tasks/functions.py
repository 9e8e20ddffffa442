"""Tasks on the functions that our ABY3 adds: in graphs, as a user calls them."""

import contextlib
import time

import numpy as np
import pytest
import tensorflow as tf

import tfe_ext
from extensions.privacy.randomness import SystemSource
from extensions.protocols.clipping import ClipPlan, clip_by_norm
from extensions.protocols.inverse_sqrt import InverseSqrtPlan, inverse_sqrt
from extensions.protocols.noise import NoiseSplit, summand_scale
from tests.extensions.protocols.test_clipping import (
    assert_clipped,
    assert_factor_guarantee,
    rows_of,
)
from tests.extensions.protocols.test_inverse_sqrt import assert_within_guarantee
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM, boundaries, mean_p_value, variance_p_value
from tests.helpers.tfe_tasks.session import (
    CONFIG,
    DEVICES,
    PROTOCOL,
    assert_replicated,
    graph,
    private,
    share_values,
)
from tfe_ext.ring import conversions, dealing
from tfe_ext.ring.placed import send
from tfe_ext.ring.shares import Replicated

import tf_encrypted as tfe
from tf_encrypted.protocol.aby3.aby3_tensors import ShareType
from tf_encrypted.tensor.fixed import FixedpointConfig


@contextlib.contextmanager
def protocol(frac_bits):
    """Inside the block the current protocol has that many fractional bits."""
    if PROTOCOL.fixedpoint_config.precision_fractional == frac_bits:
        yield PROTOCOL
    else:
        with tfe_ext.ABY3() as other:
            assert other.fixedpoint_config.precision_fractional == frac_bits
            yield other


def placed_shares(x):
    """The six shares, each of which lies on its server."""
    shares = share_values(x)
    places = [{share.device for share in pair} for pair in shares]
    assert places == [{device} for device in DEVICES]
    return shares


def integers(shares):
    """The ring integers behind six share values."""
    assert_replicated(shares)
    return (shares[0][0].numpy() + shares[0][1].numpy()) + shares[1][1].numpy()


def apply(function, x, frac_bits):
    """Two runs of one graph of a function of ring integers, whose shares have nothing in common."""
    shared = private(np.ldexp(x.astype(np.float64), -frac_bits))
    run = graph(lambda: placed_shares(function(shared)))
    first, second = run(), run()
    pairs = list(zip(*map(tf.nest.flatten, (first, second)), strict=True))
    assert not any(np.any(a == b) for a, b in pairs)
    return integers(first), integers(second)


def inverse_sqrt_keeps_its_promise(frac_bits):
    plan = InverseSqrtPlan(frac_bits=frac_bits)
    x = boundaries(min(plan.live_bits, 52))
    with protocol(frac_bits):
        for y in apply(tfe.inverse_sqrt, x, frac_bits):
            assert_within_guarantee(x, y, plan)


def clip_factor_keeps_its_promise(frac_bits):
    plan = ClipPlan(frac_bits=frac_bits)
    r = boundaries(plan.live_bits)
    with protocol(frac_bits):
        for factor in apply(tfe.clip_factor, r, frac_bits):
            assert_factor_guarantee(r, factor, plan)


def clip_by_norm_keeps_its_promise(frac_bits, max_norm):
    x, lengths = rows_of(max_norm, frac_bits)
    with protocol(frac_bits):
        for clipped in apply(lambda x: tfe.clip_by_norm(x, max_norm), x, frac_bits):
            assert_clipped(clipped, max_norm, frac_bits)
            np.testing.assert_array_equal(clipped[lengths <= 0.998], x[lengths <= 0.998])


def clip_by_norm_takes_one_vector(frac_bits, max_norm):
    x, lengths = rows_of(max_norm, frac_bits)
    one = x[lengths > 1][0]
    with protocol(frac_bits):
        (clipped, _) = apply(lambda x: tfe.clip_by_norm(x, max_norm), one, frac_bits)
        assert clipped.shape == one.shape
        assert_clipped(clipped[None], max_norm, frac_bits)


def results_serve_the_host():
    values = np.array([[0.25, 4.0], [2.0, 9.0]])

    @tfe.function
    def normalise(x):
        return x * tfe.inverse_sqrt(x)

    rooted = normalise(private(values))
    np.testing.assert_allclose(rooted.reveal().to_native(), np.sqrt(values), rtol=1e-3)
    compared = tfe.less_than(tfe.inverse_sqrt(rooted * rooted), private(np.ones((2, 2))))
    np.testing.assert_array_equal(compared.reveal().to_native(), 1 / values < 1)


def variables_and_loops():
    variable = tfe.define_private_variable(tf.constant([4.0, 16.0]))

    @graph
    def run():
        state = [tf.constant(0), tfe.inverse_sqrt(variable)]
        _, x = tfe.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, tfe.inverse_sqrt(x)), state)
        return x.reveal().to_native()

    for _ in range(2):
        np.testing.assert_allclose(run(), [4**-0.125, 16**-0.125], rtol=1e-3)


def graphs_are_small():
    """The time to trace one is that of its operations: 2,000, of the host's own inv_sqrt 6,500."""
    shared = private(np.ones(7))
    traced = graph(lambda: share_values(tfe.inverse_sqrt(shared))).get_concrete_function()
    definition = traced.graph.as_graph_def()
    nodes = len(definition.node) + sum(len(f.node_def) for f in definition.library.function)
    assert 1000 < nodes < 2500, nodes


def names_leave_with_the_protocol():
    names = ["inverse_sqrt", "clip_factor", "clip_by_norm", "gaussian_noise"]
    try:
        tfe.set_protocol(tfe.protocol.ABY3())
        for name in names:
            with pytest.raises(Exception, match="not implemented in protocol"):
                getattr(tfe, name)(1)
    finally:
        tfe.set_protocol(PROTOCOL)
    for name in names:
        assert getattr(tfe, name) == getattr(PROTOCOL, name)


def servers_may_share_a_device():
    try:
        tfe.set_config(tfe.LocalConfig())
        with tfe_ext.ABY3():
            x = tfe.define_private_input("server0", lambda: tf.constant([4.0]))
            y = tfe.inverse_sqrt(x)
            np.testing.assert_allclose(y.reveal().to_native(), [0.5], rtol=1e-3)
            with refused("protocol", "value", tfe.get_protocol()):
                tfe_ext.cost(tfe.inverse_sqrt, x)
    finally:
        tfe.set_config(CONFIG)
        tfe.set_protocol(PROTOCOL)


def unsuitable_tensors_are_refused():
    x = np.ones(3)
    public = tfe.define_constant(x)
    with tfe_ext.ABY3():
        foreign = private(x)
    boolean = private(x.astype(int), share_type=ShareType.BOOLEAN, apply_scaling=False)
    unscaled = private(x.astype(int), apply_scaling=False)
    for tensor, *expected in (
        (public, "type", "ABY3Constant"),
        (tf.constant(x), "type", "EagerTensor"),
        (3.0, "type", "float"),
        (foreign, "value", "a tensor of another protocol object"),
        (boolean, "value", "a BOOLEAN sharing"),
        (unscaled, "value", "an unscaled tensor"),
    ):
        for function in (
            tfe.inverse_sqrt,
            tfe.clip_factor,
            lambda x: tfe.clip_by_norm(x, 1.0),
        ):
            with refused("x", *expected):
                function(tensor)
    with refused("x", "shape", "a scalar"):
        tfe.clip_by_norm(private(1.0), 1.0)


def unsuitable_arguments_are_refused():
    x = private(np.ones((2, 2)))
    narrow = FixedpointConfig(2, 64, 5, 4, 256, 0, False)
    calls = [
        ("degree", "choice", 5, lambda bad: tfe.inverse_sqrt(x, degree=bad)),
        ("max_norm", "range", 0.0, lambda bad: tfe.clip_factor(x, max_norm=bad)),
        ("range_bits", "value", 60, lambda bad: tfe.clip_factor(x, range_bits=bad)),
        ("max_norm", "value", 1e-4, lambda bad: tfe.clip_by_norm(x, bad)),
        *(
            ("sigma", code, bad, lambda bad: tfe.gaussian_noise(3, bad))
            for code, bads in (("range", (-1.0, np.inf)), ("value", (1e-9, 4e-5, 2.0**40, 1e308)))
            for bad in bads
        ),
        ("colluders", "value", 3, lambda bad: tfe.gaussian_noise(3, 1.0, colluders=bad)),
        (
            "frac_bits",
            "range",
            4,
            lambda _: tfe_ext.ABY3(fixedpoint_config=narrow).gaussian_noise(3, 1.0),
        ),
    ]
    for argument, code, value, call in calls:
        with refused(argument, code, value):
            call(value)


class Recorder(SystemSource):
    """The system's source, remembering what each party drew."""

    def __init__(self):
        self.drawn = {0: [], 1: [], 2: []}

    def gaussian(self, party, scale, shape):
        self.drawn[party].append(super().gaussian(party, scale, shape))
        return self.drawn[party][-1]


def assert_has_deviation(draws, deviation):
    assert variance_p_value(draws, deviation**2) > ALARM
    assert mean_p_value(draws, deviation**2) > ALARM
    for wrong in (0.9, 1.1):
        assert variance_p_value(draws, (wrong * deviation) ** 2) < ALARM


def noise_has_the_stated_variance(frac_bits, sigma, colluders):
    """Ten statistics at 1e-8; a deviation 10 % off is 14 deviations beyond the threshold."""
    recorder, shape = Recorder(), (200, 100)
    with protocol(frac_bits):

        @graph
        def run():
            noise = tfe.gaussian_noise(shape, sigma, colluders=colluders, source=recorder)
            return placed_shares(noise)

        run.get_concrete_function()
        assert recorder.drawn == {0: [], 1: [], 2: []}
        opened = [integers(run()) for _ in range(2)]
    each = summand_scale(3, sigma, frac_bits=frac_bits, split=NoiseSplit(colluders=colluders))
    for i, total in enumerate(opened):
        own = [recorder.drawn[party][i] for party in range(3)]
        np.testing.assert_array_equal(sum(own), total)
        assert_has_deviation(total, 3**0.5 * each)
        assert_has_deviation(total - sum(own[:colluders]), (3 - colluders) ** 0.5 * each)
    distinct = [*opened, *(draws for drawn in recorder.drawn.values() for draws in drawn)]
    assert len({tuple(draws.ravel()[:50].tolist()) for draws in distinct}) == len(distinct)


def noise_is_fresh_in_every_run():

    def noise():
        return tfe.gaussian_noise((64,), 1.0).reveal().to_native()

    run = graph(noise)

    @graph
    def loop():
        kept = tf.TensorArray(tf.float64, 3)
        return tf.while_loop(
            lambda i, kept: i < 3, lambda i, kept: (i + 1, kept.write(i, noise())), (0, kept)
        )[1].stack()

    draws = []
    for _ in range(2):
        tf.random.set_seed(0)
        np.random.seed(0)
        draws += [noise(), run(), *loop()]
    assert len({tuple(draw.numpy().tolist()) for draw in draws}) == len(draws) == 10
    assert not np.any(tfe.gaussian_noise(5, 0.0).reveal().to_native())
    assert tfe.gaussian_noise([2, 3], 1.0).shape == [2, 3]


@contextlib.contextmanager
def recorded_messages():
    """Inside the block, the list of (receiver, words) of all that our conversions send."""
    sent, modules = [], [conversions, dealing]

    def record(tensors, sender, receiver):
        received = send(tensors, sender, receiver)
        sent.extend((receiver, word.numpy()) for word in received)
        return received

    for module in modules:
        module.send = record
    try:
        yield sent
    finally:
        for module in modules:
            module.send = send


def what_is_sent_is_uniform():
    """Of zeros that are shared as zeros, every word sent is uniform, and so are all differences.

    The 64 bits of 500 words hold 16,000 ones and no 8 standard deviations (89 each) more or less,
    with a probability of 1.3e-15 a test, in some 20,000 tests.
    """
    count = 500
    zeros = []
    for device in DEVICES:
        for _ in range(2):
            with tf.device(device):
                zeros.append(tf.identity(tf.zeros([count], tf.int64)))
    x, ring = Replicated(DEVICES, zeros), PROTOCOL.ring
    with recorded_messages() as sent:
        y = inverse_sqrt(ring, x, InverseSqrtPlan(frac_bits=20))
        z = clip_by_norm(ring, x.reshape(count, 1), 1.0, ClipPlan(frac_bits=20))
        ring.replicate([y, z, *ring.mul([(x, x)])])
        ring.less_than(*ring.mul([(x, x)]), [1])
        for values in (*ring.mul([(x, x)]), *ring.truncate([(x, 0)])):
            for shift in (0, 20):
                ring.select(values, [1], [[1]], [], shift)
            ring.truncate_and_multiply([(values, 5)], [(0, 0)])
            column = values.reshape(count, 1)
            rows, _ = ring.square_rows([column], 20, [column])
            ring.scale_rows(rows, values)
    tests = 0
    for device in DEVICES:
        rows = [
            words.reshape(-1)[start : start + count]
            for receiver, words in sent
            if receiver == device
            for start in range(0, words.size, count)
        ]
        for i, row in enumerate(rows):
            for other in [np.zeros_like(row), *rows[max(0, i - 30) : i]]:
                size = min(row.size, other.size)
                for word in (row[:size] ^ other[:size], row[:size] - other[:size]):
                    ones = np.unpackbits(word.view(np.uint8)).sum()
                    assert abs(int(ones) - 32 * size) < 8 * np.sqrt(16 * size), (device, i)
                    tests += 1
    assert 5_000 < tests < 100_000, tests


def is_faster_than_the_hosts(size):
    """The medians of runs in turn; the host's is its inv_sqrt on the same class."""
    with protocol(16):
        x = private(np.linspace(0.1, 5.0, size))
        runs = {
            "ours": graph(lambda: share_values(tfe.inverse_sqrt(x))),
            "host": graph(lambda: share_values(tfe.inv_sqrt(x))),
        }
        times = {name: [] for name in runs}
        for _ in range(21):
            for name, run in runs.items():
                start = time.perf_counter()
                tf.nest.flatten(run())[-1].numpy()
                times[name].append(time.perf_counter() - start)
    medians = {name: float(np.median(measured[1:])) for name, measured in times.items()}
    assert medians["ours"] < medians["host"], medians
    return medians
