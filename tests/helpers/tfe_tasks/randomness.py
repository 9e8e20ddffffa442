"""Tasks on the key stream and on the draws from it."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.session import DEVICES, graph
from tfe_ext.streams import native
from tfe_ext.streams.chacha import keystream, keystream_on
from tfe_ext.streams.randomness import Stream

KEY = tf.constant(np.frombuffer(bytes(range(32)), "<u4"))
TYPES = (tf.bool, tf.int8, tf.int16, tf.int32, tf.int64)
# RFC 8439, section 2.3.2.
BLOCK_NONCE = "000000090000004a00000000"
BLOCK = (
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
    "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)
# RFC 8439, section 2.4.2.
TEXT_NONCE = "000000000000004a00000000"
TEXT = (
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
    b"future, sunscreen would be it."
)
CIPHER = (
    "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
    "f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8"
    "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
    "5af90bbf74a35be6b40b8eedf2785e42874d"
)


def words(text):
    return tf.constant(np.frombuffer(bytes.fromhex(text), "<u4"))


def rfc_vectors():
    for compute in (keystream, tf.function(keystream, autograph=False)):
        block = compute(KEY, words(BLOCK_NONCE), 1, 1)
        assert block.numpy().astype("<u4").tobytes().hex() == BLOCK
        stream = compute(KEY, words(TEXT_NONCE), 2, 1).numpy().astype("<u4").tobytes()
        cipher = bytes(a ^ b for a, b in zip(TEXT, stream, strict=False))
        assert cipher.hex() == CIPHER


def compiled_words_are_the_portable_ones():
    """Bit for bit, for keys, nonces and lengths at which counters and shapes begin or turn over."""
    rng = np.random.default_rng(0)
    for blocks in (0, 1, 2, 7, 257, 4096):
        key, nonce = (tf.constant(rng.integers(0, 1 << 32, n), tf.uint32) for n in (8, 3))
        for device in DEVICES[:2]:
            arguments = key, nonce, tf.constant(blocks)
            words = native.keystream_on(device)(*arguments)
            assert words.backing_device == device
            assert words.shape == [16 * blocks]
            np.testing.assert_array_equal(words, keystream_on(device)(*arguments))
    ones = tf.constant([0xFFFFFFFF] * 8, tf.uint32)
    arguments = ones, ones[:3], tf.constant(3)
    np.testing.assert_array_equal(
        native.keystream_on(DEVICES[0])(*arguments), keystream_on(DEVICES[0])(*arguments)
    )
    portable, compiled = Stream(DEVICES[:2]), Stream(DEVICES[:2], native.keystream_on)
    for device in DEVICES[:2]:
        compiled._keys[device].assign(portable._keys[device])
    for dtype in TYPES:
        one, other = (s.draw([33], dtype) for s in (portable, compiled))
        for device in DEVICES[:2]:
            np.testing.assert_array_equal(one.on(device), other.on(device))
    for bad in ((ones[:7], ones[:3], 1), (ones, ones[:2], 1), (ones, ones[:3], -1)):
        with pytest.raises(tf.errors.InvalidArgumentError):
            native.load().pea_cha_cha20(key=bad[0], nonce=bad[1], blocks=bad[2])


def stays_on_its_device():
    stream = keystream_on(DEVICES[1])(KEY, words(BLOCK_NONCE), tf.constant(2))
    assert stream.backing_device == DEVICES[1]
    operations = keystream_on(DEVICES[1]).get_concrete_function().graph.get_operations()
    placed = {operation.device for operation in operations if operation.type == "StatelessWhile"}
    assert placed == {DEVICES[1]}, placed
    assert stream.numpy()[16:].astype("<u4").tobytes().hex() == BLOCK


def both(draw):
    first, second = (draw.on(device) for device in DEVICES[:2])
    return first, second


def holders_agree():
    stream = Stream(DEVICES[:2])
    shapes = [(), (0,), (3,), (2, 0, 5), (4, 7), (33,)]

    def draw_all():
        return [both(stream.draw(shape, dtype)) for dtype in TYPES for shape in shapes]

    for results in (draw_all(), graph(draw_all)()):
        expected = [(dtype, shape) for dtype in TYPES for shape in shapes]
        for (first, second), (dtype, shape) in zip(results, expected, strict=True):
            assert first.dtype == dtype
            assert first.shape == shape
            np.testing.assert_array_equal(first, second)
    first, second = both(stream.draw([5], tf.int64))
    assert (first.backing_device, second.backing_device) == tuple(DEVICES[:2])


def other_devices_are_refused():
    with refused("holder", "choice", value="/job:localhost/replica:0/task:0/device:CPU:3"):
        Stream(DEVICES[:2]).draw([1], tf.int64).on(DEVICES[2])


def unsuitable_draws_are_refused():
    stream = Stream(DEVICES[:1])
    for shape, dtype, *expected in (
        ([None], tf.int64, "shape", "shape", [None]),
        ([2], tf.float32, "dtype", "choice", "float32"),
        ([1 << 31], tf.int64, "shape", "value", [1 << 31]),
    ):
        with refused(*expected):
            stream.draw(shape, dtype)


def _assert_distinct(values):
    """No 64-bit value occurs twice: n random ones collide with probability < n^2 / 2^65."""
    flat = np.concatenate([np.ravel(value) for value in values])
    assert flat.dtype == np.int64
    assert len(np.unique(flat)) == len(flat)


def nothing_repeats():
    stream = Stream(DEVICES[:2])
    device = DEVICES[0]

    def take(size):
        return stream.draw([size], tf.int64).on(device)

    @graph
    def straight():
        # Sizes around a common site of 2^14 words, before and after it is full.
        return [take(size) for size in (3, 1, 8, 9000, 2, 700, 9000, 5)]

    @graph
    def nested():
        inner = straight()
        return [*inner, *straight(), take(4)]

    @graph
    def loop():
        def body(i, drawn):
            return i + 1, drawn.write(i, tf.concat([take(3), take(50)], 0))

        drawn = tf.TensorArray(tf.int64, 20)
        _, drawn = tf.while_loop(lambda i, drawn: i < 20, body, (0, drawn))
        return drawn.stack()

    @graph
    def branch(which):
        return tf.cond(which, lambda: take(6), lambda: take(6))

    @graph
    def retraced(x):
        return take(5 + 0 * len(x.shape))

    values = [take(4), take(4)]
    for _ in range(2):
        values += [*straight(), *nested(), loop()]
        values += [branch(tf.constant(which)) for which in (True, False, True)]
        values += [retraced(tf.zeros([1] * rank)) for rank in range(3)]
    _assert_distinct(values)


def pruned_holder_stays_in_step():
    stream = Stream(DEVICES[:2])

    @graph
    def one_side(rounds):
        def body(i, total):
            only_here = stream.draw([3], tf.int64)
            return i + 1, total + only_here.on(DEVICES[1])

        return tf.while_loop(
            lambda i, total: i < rounds, body, (tf.constant(0), tf.zeros([3], tf.int64))
        )[1]

    @graph
    def two_sides():
        stream.draw([100], tf.int64).on(DEVICES[0])
        return both(stream.draw([9], tf.int64))

    for rounds in (0, 1, 7):
        one_side(tf.constant(rounds))
        np.testing.assert_array_equal(*two_sides())
        np.testing.assert_array_equal(*both(stream.draw([9], tf.int64)))


def threads_share_a_stream():
    stream = Stream(DEVICES[:2])

    @graph
    def pair():
        return both(stream.draw([16], tf.int64))

    pair()
    values, lock = [], threading.Lock()

    def work():
        for _ in range(20):
            first, second = pair()
            np.testing.assert_array_equal(first, second)
            with lock:
                values.append(first.numpy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(values) == 80
    _assert_distinct(values)


def rekeyed_graphs_draw_from_the_new_key():
    stream = Stream(DEVICES[:2])

    @graph
    def pair():
        return both(stream.draw([8], tf.int64))

    before = pair()
    stream.rekey()
    after = pair()
    np.testing.assert_array_equal(*after)
    _assert_distinct([before[0], after[0]])


def streams_have_keys_of_their_own():
    _assert_distinct([Stream(DEVICES[:1]).draw([8], tf.int64).on(DEVICES[0]) for _ in range(5)])


def uniform(alarm):
    """Every byte of every type passes a two-sided chi-square test; returns their number."""
    stream = Stream(DEVICES[:1])
    tests = 0
    for dtype in TYPES:
        values = stream.draw([1 << 20], dtype).on(DEVICES[0]).numpy()
        if dtype == tf.bool:
            columns, cells = np.packbits(values)[:, None], 256
        else:
            columns, cells = values.view(np.uint8).reshape(len(values), -1), 256
        for column in columns.T:
            counts = np.bincount(column, minlength=cells)
            statistic = stats.chisquare(counts).statistic
            low, high = stats.chi2.isf([1 - alarm, alarm], cells - 1)
            assert low < statistic < high, (dtype, statistic)
            tests += 1
        if dtype == tf.int16:
            counts = np.bincount(values.view(np.uint16), minlength=1 << 16)
            low, high = stats.chi2.isf([1 - alarm, alarm], (1 << 16) - 1)
            assert low < stats.chisquare(counts).statistic < high
            tests += 1
    return tests
