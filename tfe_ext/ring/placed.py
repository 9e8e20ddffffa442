"""Tensors of one kind on several servers' devices: one operation works on each, where it lies."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from extensions.ring.fixed_point import wrap
from tfe_ext.streams.devices import constant, gather, reshape, rows, split

Part = Any
"""A tf.Tensor, or None for zeros."""


class Placed:
    """The parts of one value, not all None, on the devices of the servers that `PLACES` names."""

    PLACES: ClassVar[tuple[int, ...]]

    def __init__(self, servers: Sequence[str], parts: Sequence[Part]) -> None:
        self.servers = tuple(servers)
        self.parts = tuple(parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The static shape of every part."""
        given = next(part for part in self.parts if part is not None)
        return tuple(given.shape.as_list())

    def each(self, function: Callable[[tf.Tensor], tf.Tensor]) -> Self:
        """Applies a function that keeps zero to every nonzero part, on the part's device."""
        return self._with([self._on(i, function, part) for i, part in enumerate(self.parts)])

    def beside(self, other: "Placed", function: Callable[..., tf.Tensor]) -> Self:
        """Applies a function that keeps zero to every part and what its server has of another."""
        places = zip(self.PLACES, self.parts, strict=True)
        return self._with(
            [self._on(i, function, part, other.on(place)) for i, (place, part) in enumerate(places)]
        )

    def beside_public(self, value: npt.ArrayLike, function: Callable[..., tf.Tensor]) -> Self:
        """Applies a function that keeps zero to every part and a public constant."""
        parts = []
        for i, part in enumerate(self.parts):
            there = constant(value, self.servers[self.PLACES[i]])
            parts.append(self._on(i, function, part, there))
        return self._with(parts)

    def on(self, place: int) -> Part:
        """The part of the server of that number, if it is one of `PLACES`."""
        return self.parts[self.PLACES.index(place)] if place in self.PLACES else None

    def _on(self, i: int, function: Callable[..., tf.Tensor], *operands: Part) -> Part:
        if operands[0] is None:
            return None
        with tf.device(self.servers[self.PLACES[i]]):
            return function(*operands)

    def _placed(self, function: Callable[..., tf.Tensor], argument: Any) -> Self:
        """Applies a function of a part, an argument and the part's device to every nonzero part."""
        at = [self.servers[place] for place in self.PLACES]
        pairs = zip(self.parts, at, strict=True)
        return self._with([None if p is None else function(p, argument, to) for p, to in pairs])

    def _with(self, parts: Sequence[Part]) -> Self:
        return type(self)(self.servers, parts)

    def _sum(self, other: Self, join: Callable[..., tf.Tensor]) -> Self:
        """Joins parts with parts, where a part that is None is neutral."""
        if None not in self.parts and None not in other.parts:
            pairs = enumerate(zip(self.parts, other.parts, strict=True))
            return self._with([self._on(i, join, *pair) for i, pair in pairs])
        shape = tf.broadcast_static_shape(tf.TensorShape(self.shape), tf.TensorShape(other.shape))
        parts = []
        for i, (own, others) in enumerate(zip(self.parts, other.parts, strict=True)):
            if own is not None and others is not None:
                parts.append(self._on(i, join, own, others))
            else:
                alone = others if own is None else own
                parts.append(self._on(i, lambda part: tf.broadcast_to(part, shape), alone))
        return self._with(parts)

    def __neg__(self) -> Self:
        return self.each(tf.negative)

    def __mul__(self, factor: "int | Placed") -> Self:
        """Returns the product with a public integer, or with what the servers know in public."""
        if isinstance(factor, Placed):
            return self.beside(factor, tf.multiply)
        return self.beside_public(np.int64(wrap(factor)), tf.multiply)

    def sum(self, axis: int) -> Self:
        """Returns the sums along one axis."""
        return self.beside_public(np.int32(axis), tf.reduce_sum)

    def __getitem__(self, key: Any) -> Self:
        """Returns parts of the parts; a list or an integer picks along the first axis."""
        if isinstance(key, list | int):
            return self._placed(gather, np.arange(self.shape[0])[key])
        if _is_all(key, self.shape):
            return self
        if isinstance(key, slice) and key.step is None:
            return self._placed(rows, key)
        return self.each(lambda part: part[key])

    def __iter__(self) -> Iterator[Self]:
        size = self.shape[0]
        columns = [
            self._on(i, tf.unstack, part) or [None] * size for i, part in enumerate(self.parts)
        ]
        return iter([self._with(parts) for parts in zip(*columns, strict=True)])

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Returns the parts in another shape, given as one sequence or as integers."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return self._placed(reshape, wanted)

    @property
    def T(self) -> Self:
        """The transposed matrix."""
        return self.beside_public(np.arange(len(self.shape), dtype=np.int32)[::-1], tf.transpose)


def _is_all(key: Any, shape: Sequence[int]) -> bool:
    """Whether a key is of slices that leave nothing out."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) > len(shape) or not all(isinstance(each, slice) for each in keys):
        return False
    pairs = zip(keys, shape, strict=False)
    return all(each.indices(size) == (0, size, 1) for each, size in pairs)


P = TypeVar("P", bound=Placed)


def stack(values: Sequence[P]) -> P:
    """Returns equal-shaped values along a new leading axis."""
    first, *_ = values
    parts = []
    for place, *column in zip(first.PLACES, *(value.parts for value in values), strict=True):
        with tf.device(first.servers[place]):
            zero = np.zeros(first.shape, dtype=np.int64)
            parts.append(tf.stack([zero if part is None else part for part in column]))
    return type(first)(first.servers, parts)


def concatenate(values: Sequence[P]) -> P:
    """Returns the values along the first axis, one after the other; none of their parts is zero."""
    first, *others = values
    if not others:
        return first
    columns = zip(*(value.parts for value in values), strict=True)
    parts = []
    for place, column in zip(first.PLACES, columns, strict=True):
        axis = constant(np.int32(0), first.servers[place])
        with tf.device(first.servers[place]):
            parts.append(tf.concat(column, axis))
    return type(first)(first.servers, parts)


def send(tensors: Sequence[tf.Tensor], sender: str, receiver: str) -> list[tf.Tensor]:
    """Returns the sender's tensors on the receiver's device, after one message."""
    if not tensors:
        return []
    if len(tensors) == 1:
        with tf.device(receiver):
            return [tf.identity(tensors[0])]
    sizes = [math.prod(tensor.shape.as_list()) for tensor in tensors]
    flat = [reshape(t, [size], sender) for t, size in zip(tensors, sizes, strict=True)]
    with tf.device(sender):
        packed = tf.concat(flat, constant(np.int32(0), sender))
    with tf.device(receiver):
        received = tf.identity(packed)
    pieces = split(received, sizes, receiver)
    return [reshape(p, t.shape, receiver) for p, t in zip(pieces, tensors, strict=True)]
