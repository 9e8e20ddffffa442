"""Messages between parties, and their encoding in bytes, which is what is counted."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import MessageError

Party = int
"""A client is its number, counted from 0. Other parties have numbers below 0."""
SERVER: Party = -1

Value = int | float | bytes | str | npt.NDArray[Any] | list["Value"]
"""What a message may hold: integers of any size, arrays of the types in DTYPES, lists of these."""

DTYPES = ("u1", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
"""Types of arrays, by the code that stands for them: unsigned, signed, floating-point; bytes."""

VERSION = 1


def party_name(party: Party) -> str:
    """Returns how errors and reports name the party."""
    if party >= 0:
        return f"client {party}"
    return "the server" if party == SERVER else f"party {party}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Message:
    """What one party sends another.

    Attributes:
        round: number of the round that it belongs to.
        sender: who sends it.
        receiver: who is to get it.
        kind: what it is, such as "update"; a protocol's kinds are distinct.
        body: values by name. Arrays arrive read-only.
    """

    round: int
    sender: Party
    receiver: Party
    kind: str
    body: Mapping[str, Value]

    def array(self, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Returns the array of that name; -1 in the shape stands for any number.

        Raises:
            MessageError: there is none, or one of another type or shape; names the sender.
        """
        value = self.body.get(name)
        given = "none"
        if isinstance(value, np.ndarray):
            if value.dtype == dtype and value.ndim == len(shape):
                pairs = zip(value.shape, shape, strict=True)
                if all(wanted in (-1, length) for length, wanted in pairs):
                    return value
            given = f"one of {value.dtype} and shape {value.shape}"
        wanted_array = f"an array {name!r} of {np.dtype(dtype)} and shape {shape}"
        raise MessageError(
            f"{self.kind!r} of {party_name(self.sender)} must hold {wanted_array}: it holds {given}"
        )

    def encode(self) -> bytes:
        """Returns the bytes on the wire, from which `decode` makes an equal message.

        Version, round, sender, receiver, kind, number of values; of each value its name, a tag and
        its content. Counts and lengths are LEB128; arrays are little-endian, in C order, behind
        their type and shape; integers are in two's complement behind their length.

        Raises:
            MessageError: a value has no encoding.
        """
        parts = [bytes([VERSION]), _count(self.round)]
        parts += [_count(_folded(party)) for party in (self.sender, self.receiver)]
        parts += [_text(self.kind), _count(len(self.body))]
        for name, value in self.body.items():
            parts += [_text(name), _value(value)]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> "Message":
        """Returns the message in the bytes.

        Raises:
            MessageError: the bytes are no message, or not all of them are.
        """
        try:
            return _Reader(data).message()
        except (IndexError, ValueError, OverflowError, RecursionError, struct.error) as error:
            raise MessageError(f"{len(data)} bytes that are no message: {error}") from error


def _count(number: int) -> bytes:
    if number < 0:
        raise MessageError(f"a round or length of {number}: must be at least 0.")
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _folded(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def _sized(data: bytes) -> bytes:
    return _count(len(data)) + data


def _text(text: str) -> bytes:
    return _sized(text.encode())


def _value(value: Value) -> bytes:
    match value:
        case bool():
            raise MessageError("a bool has no encoding: send 0 or 1.")
        case int():
            return b"i" + _sized(value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
        case float():
            return b"f" + struct.pack("<d", value)
        case bytes():
            return b"b" + _sized(value)
        case str():
            return b"s" + _text(value)
        case list():
            return b"l" + _count(len(value)) + b"".join(map(_value, value))
        case np.ndarray():
            return b"a" + _array(value)
    raise MessageError(f"a {type(value).__name__} has no encoding: send one of {Value}.")


def _array(array: npt.NDArray[Any]) -> bytes:
    code = array.dtype.newbyteorder("<").str.removeprefix("|")
    if code not in DTYPES:
        raise MessageError(f"an array of {array.dtype} has no encoding: its type must be {DTYPES}.")
    shape = b"".join(map(_count, array.shape))
    content = np.ascontiguousarray(array, dtype=code).tobytes()
    return bytes([DTYPES.index(code), array.ndim]) + shape + content


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def message(self) -> Message:
        if (version := self._take(1)[0]) != VERSION:
            raise ValueError(f"version {version}, not {VERSION}")
        number = self._count()
        sender, receiver = self._party(), self._party()
        kind = self._text()
        body = {self._text(): self._value() for _ in range(self._count())}
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes too many")
        return Message(round=number, sender=sender, receiver=receiver, kind=kind, body=body)

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("they end too early")
        self._at += size
        return taken

    def _count(self) -> int:
        number = shift = 0
        while True:
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte <= 0x7F:
                return number
            shift += 7

    def _party(self) -> Party:
        folded = self._count()
        return folded // 2 if folded % 2 == 0 else -(folded + 1) // 2

    def _text(self) -> str:
        return self._take(self._count()).decode()

    def _value(self) -> Value:
        match self._take(1):
            case b"i":
                return int.from_bytes(self._take(self._count()), "little", signed=True)
            case b"f":
                return float(struct.unpack("<d", self._take(8))[0])
            case b"b":
                return self._take(self._count())
            case b"s":
                return self._text()
            case b"l":
                return [self._value() for _ in range(self._count())]
            case b"a":
                return self._array()
            case tag:
                raise ValueError(f"unknown tag {tag!r}")

    def _array(self) -> npt.NDArray[Any]:
        code, dimensions = self._take(2)
        dtype = np.dtype(DTYPES[code])
        shape = tuple(self._count() for _ in range(dimensions))
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        return np.frombuffer(self._take(size), dtype=dtype).reshape(shape)
