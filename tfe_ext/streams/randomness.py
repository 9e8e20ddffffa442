"""Random tensors that several servers can expand on their own, and that never repeat.

A `Stream` is one ChaCha20 key, held by one player (private randomness) or by two (a pairwise
key of ABY3). Its nonce is (site, execution), 32 and 64 bits:

- The *execution* number is taken inside the graph, from a counter that the first holder keeps as
  a variable and that an atomic operation advances. Each graph takes it once, whenever it runs:
  each call of a function, each turn of a loop, each branch taken, each eager draw. The first
  holder sends this public number, 8 bytes, to the other one; it depends on no data, so it is
  under way before it is needed.
- The *site* number tells the draws of one graph apart. It is given while the graph is traced.

Guarantees:
    - No key stream block serves twice. Two draws in one run of a graph have two sites, or disjoint
      parts of one; two runs of any graphs, traced anew or not, called from any thread, have two
      execution numbers, since a stateful operation is never merged, folded or hoisted. Keys come
      from the operating system and are never stored, so another process or protocol has other keys.
    - The holders cannot get out of step. There is no state that both must advance in the same
      order: whoever expands a draw computes it from the site, which is part of the graph, and from
      the execution number, which both read from the same counter. One holder's operation may be
      pruned, reordered or run at another time without any effect on the other draws.
    - The counter raises an error at 2^63 - 1 instead of beginning anew.

A graph with many small draws cuts them from common sites, as one ChaCha20 call has a fixed cost.

Limits:
    The process that builds the graph makes the keys and sends them to the servers: it is trusted
    with them, as TF Encrypted trusts it with every tensor.
"""

import functools
import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.rules import one_of
from tfe_ext.streams import chacha
from tfe_ext.streams.chacha import BLOCK, KeystreamOn
from tfe_ext.streams.devices import constant, kept_on_graph, reshape, turned

_KEY_BYTES = 32
_COMMON_SITE = 1 << 14  # words; beyond it the fixed cost of a call no longer matters
_MAX_WORDS = 1 << 31
_COUNTER_LIMIT = (1 << 63) - 1
_RUNS = "_tfe_ext_runs"
TYPES = (tf.bool, tf.int8, tf.int16, tf.int32, tf.int64)


def from_words(words: tf.Tensor, shape: tf.TensorShape, dtype: tf.DType) -> tf.Tensor:
    """Returns uniform values of the type, made of the bits of uint32 words; each serves once."""
    size = math.prod(shape.as_list())
    if dtype == tf.bool:
        bits = tf.bitwise.bitwise_and(words[:, None], tf.constant(_POWERS)[None])
        values = tf.reshape(bits != 0, [-1])[:size]
    elif dtype == tf.int64:
        values = tf.bitcast(tf.reshape(words, [size, 2]), tf.int64)
    else:
        values = tf.reshape(tf.bitcast(words, dtype), [-1])[:size]
    return tf.reshape(values, shape)


_POWERS = np.uint32(1) << np.arange(32, dtype=np.uint32)


@functools.cache
def bits_of(dtype: tf.DType) -> int:
    """Returns how many random bits a value of the type takes."""
    return 1 if dtype == tf.bool else int(dtype.size) * 8


class Stream:
    """Uniform random tensors from one 256-bit key, which lies on the device of each holder."""

    def __init__(
        self, holders: Sequence[str], keystream_on: KeystreamOn = chacha.keystream_on
    ) -> None:
        self.holders = tuple(holders)
        self.keystream_on = keystream_on
        self._keys: dict[str, tf.Variable] = {}
        with tf.init_scope():
            words = _fresh_key()
            for holder in self.holders:
                with tf.device(holder):
                    self._keys[holder] = _variable(words, "chacha20_key")
            with tf.device(self.holders[0]):
                self._executions = _variable(np.int64(0), "chacha20_executions")

    def rekey(self) -> None:
        """Lets all later draws come from a new key, also in functions that were traced before."""
        with tf.init_scope():
            words = _fresh_key()
            for key in self._keys.values():
                key.assign(words)

    def draw(self, shape: Sequence[int] | tf.TensorShape, dtype: tf.DType) -> "Draw":
        """Returns one uniform tensor over all values of the type, which any holder can expand.

        Raises ArgumentError if the shape is not fully known or too large, or the type not in
        `TYPES`.
        """
        dtype = tf.as_dtype(dtype)
        if dtype not in TYPES:
            raise ArgumentError("dtype", dtype.name, one_of(each.name for each in TYPES))
        static = tf.TensorShape(shape)
        if not static.is_fully_defined():
            advice = "Give the function an input signature without None."
            raise ArgumentError("shape", static, "fully known", advice, code="shape")
        size = math.prod(static.as_list())
        words = -(-size * bits_of(dtype) // 32)
        if words > _MAX_WORDS:
            raise ArgumentError("shape", static, f"at most {_MAX_WORDS} words of 32 bits")
        site, start = self._run().allot(words)
        return Draw(site, start, words, static, dtype)

    def _run(self) -> "_Run":
        if tf.executing_eagerly():
            return _Run(self)
        runs = kept_on_graph(_RUNS)
        if self not in runs:
            runs[self] = _Run(self)
        run: _Run = runs[self]
        return run

    def _count(self) -> tf.Tensor:
        return self._next() if tf.executing_eagerly() else self._advance()

    @functools.cached_property
    def _next(self) -> Callable[[], tf.Tensor]:
        """`_advance` for eager use, where a handle on another host lacks the type that it needs."""
        traced: Callable[[], tf.Tensor] = tf.function(
            self._advance, autograph=False
        ).get_concrete_function()
        return traced

    def _advance(self) -> tf.Tensor:
        with tf.control_dependencies(None), tf.device(self.holders[0]):
            number = tf.raw_ops.ResourceCountUpTo(
                resource=self._executions.handle, limit=_COUNTER_LIMIT, T=tf.int64
            )
            return tf.bitcast(number, tf.uint32)


class PrivateStreams(dict[str, Stream]):
    """The stream of each device that it alone holds, made when it is first asked for."""

    def __init__(self, keystream_on: KeystreamOn = chacha.keystream_on) -> None:
        super().__init__()
        self.keystream_on = keystream_on

    def __missing__(self, device: str) -> Stream:
        self[device] = Stream([device], self.keystream_on)
        return self[device]


@dataclass(frozen=True)
class Draw:
    """One uniform tensor, not yet expanded."""

    _site: "_Site"
    _start: int
    _words: int
    _shape: tf.TensorShape
    _dtype: tf.DType

    def on(self, holder: str) -> tf.Tensor:
        """Returns the tensor expanded on this holder's device; every holder gets the same."""
        holders = self._site.holders
        one_of(holders).check("holder", holder)
        with tf.device(holder):
            if self._dtype == tf.int64:
                pairs = self._site.pairs_on(holder)
                return _cut(pairs, self._start // 2, self._words // 2, self._shape, holder)
            words = _cut(self._site.on(holder), self._start, self._words, [self._words], holder)
            return from_words(words, self._shape, self._dtype)


class _Run:
    """All draws of one stream in one graph; they share the execution number."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._execution = stream._count()
        self._sites = 0
        self._drawn = 0
        self._site: _Site | None = None
        self._free = range(0)
        self._there: dict[str, tuple[tf.Tensor, tf.Tensor]] = {}

    def allot(self, words: int) -> tuple["_Site", int]:
        """Returns a site, and the even place in it where this many words of its own begin."""
        words += words % 2
        if self._site is None or words > len(self._free):
            size = max(words, min(self._drawn, _COMMON_SITE))
            size = -(-size // BLOCK) * BLOCK
            self._site = _Site(self, self._sites, size)
            self._free = range(size)
            self._sites += 1
        start = self._free.start
        self._free = self._free[words:]
        self._drawn += words
        return self._site, start

    def expand(self, holder: str, site: int, words: int) -> tf.Tensor:
        """Returns the words of a site on a holder's device, which reads key and number once."""
        with tf.control_dependencies(None), tf.device(holder):
            if holder not in self._there:
                nonce = tf.concat([tf.zeros([1], tf.uint32), tf.identity(self._execution)], 0)
                self._there[holder] = self.stream._keys[holder].read_value(), nonce
            key, nonce = self._there[holder]
            blocks = constant(np.int32(-(-words // BLOCK)), holder)
            own = nonce + np.array([site, 0, 0], np.uint32)
            return self.stream.keystream_on(holder)(key, own, blocks)


class _Site:
    """One ChaCha20 call in a graph, made by those holders that need it."""

    def __init__(self, run: _Run, number: int, words: int) -> None:
        self.holders = run.stream.holders
        self._run = run
        self._number = number
        self._words = words
        self._expanded: dict[str, tf.Tensor] = {}
        self._pairs: dict[str, tf.Tensor] = {}

    def on(self, holder: str) -> tf.Tensor:
        """The words, on a holder's device."""
        if holder not in self._expanded:
            self._expanded[holder] = self._run.expand(holder, self._number, self._words)
        return self._expanded[holder]

    def pairs_on(self, holder: str) -> tf.Tensor:
        """Every two words as one of 64 bits, there."""
        if holder not in self._pairs:
            words = self.on(holder)
            with tf.control_dependencies(None), tf.device(holder):
                pairs = constant(np.array([-1, 2], np.int32), holder)
                self._pairs[holder] = tf.bitcast(tf.reshape(words, pairs), tf.int64)
        return self._pairs[holder]


def _cut(
    words: tf.Tensor, start: int, size: int, shape: Sequence[int] | tf.TensorShape, device: str
) -> tf.Tensor:
    """Returns a part of a site's words in another shape."""
    begin, length = (constant(np.array([n], np.int32), device) for n in (start, size))
    part = tf.slice(words, begin, length) if [size] != words.shape else words
    return reshape(part, shape, device)


def _variable(value: Any, name: str) -> tf.Variable:
    """Returns a variable that no function takes for its own: it would be traced a second time."""
    return tf.Variable(
        value, trainable=False, name=name, experimental_enable_variable_lifting=False
    )


def _fresh_key() -> np.ndarray:
    return np.frombuffer(secrets.token_bytes(_KEY_BYTES), np.uint32)


@dataclass(frozen=True)
class Servers:
    """The servers' devices, in their order, and what they draw from.

    Servers i - 1 and i hold ``pairwise[i]``. Each device, also of an owner of inputs, has a stream
    that it alone holds, in `private`.
    """

    devices: tuple[str, ...]
    pairwise: tuple[Stream, ...]
    private: PrivateStreams

    @classmethod
    def with_fresh_keys(
        cls, devices: Sequence[str], keystream_on: KeystreamOn = chacha.keystream_on
    ) -> Self:
        """Returns servers on these devices, every pair of them with a key of its own."""
        pairs = [(devices[i], devices[i - 1]) for i in range(len(devices))]
        return cls(
            tuple(devices),
            tuple(Stream(pair, keystream_on) for pair in pairs),
            PrivateStreams(keystream_on),
        )

    def turned(self, by: int) -> Self:
        """Returns the same servers in other roles: server i has that of server i - by."""
        on, pairs = turned(self.devices, by), turned(self.pairwise, by)
        return replace(self, devices=on, pairwise=pairs)

    def rekey(self) -> None:
        """Gives every stream a new key; graphs that were traced before draw from it too."""
        for stream in (*self.pairwise, *self.private.values()):
            stream.rekey()
