"""The encoding of a message's values in bytes, and the bound of every field of a message.

Decoding takes time and memory in proportion to the number of bytes, whatever they are.
"""

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import MessageError

Value = int | float | bytes | str | npt.NDArray[Any] | list["Value"]
"""What a message may hold: integers, arrays of the types in DTYPES, lists of these."""

DTYPES = ("u1", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
"""Types of arrays, by the code that stands for them: unsigned, signed, floating-point; bytes."""

COUNT_BITS = 63
"""Of a round, the folded number of a party, a count, a length, a side of an array."""
INTEGER_BYTES = 1536
"""Of an integer: Python prints it, and the modulus of a Paillier key fits."""
TEXT_BYTES = 4096
"""Of a kind, a name or another text, in UTF-8."""
DIMENSIONS = 4
"""Of an array."""
NESTING = 16
"""Of lists in lists."""
SHOWN = 500
"""Characters that errors and reports show of what a party says."""


def readable(text: str) -> str:
    """Returns the text as errors and reports show it: printable, at most 500 characters.

    Anybody may have written it: what is not printable, such as the sequences that control a
    terminal, becomes replacement characters.
    """
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:SHOWN])
    return shown if len(text) <= SHOWN else shown[:-3] + "..."


def encode_count(number: int) -> bytes:
    """Returns LEB128; raises MessageError if the number is negative or too long."""
    if not 0 <= number < 2**COUNT_BITS:
        raise MessageError(f"a round or length has no encoding but in 0..2^{COUNT_BITS} - 1.")
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_party(number: int) -> bytes:
    """Returns the count 2 k for k = 0, 1, ..., and -2 k - 1 for k = -1, -2, ..."""
    return encode_count(2 * number if number >= 0 else -2 * number - 1)


def encode_text(text: str) -> bytes:
    """Returns UTF-8 behind its length."""
    data = text.encode()
    if len(data) > TEXT_BYTES:
        raise MessageError(f"a text of {len(data)} bytes has no encoding: at most {TEXT_BYTES}.")
    return _sized(data)


def encode_value(value: Value, depth: int = 0) -> bytes:
    """Returns a tag and the content; raises MessageError if the value has no encoding."""
    match value:
        case bool():
            raise MessageError("a bool has no encoding: send 0 or 1.")
        case int():
            return b"i" + _integer(value)
        case float():
            return b"f" + struct.pack("<d", value)
        case bytes():
            return b"b" + _sized(value)
        case str():
            return b"s" + encode_text(value)
        case list():
            if depth == NESTING:
                raise MessageError(f"lists have no encoding in more than {NESTING} others.")
            parts = (encode_value(each, depth + 1) for each in value)
            return b"l" + encode_count(len(value)) + b"".join(parts)
        case np.ndarray():
            return b"a" + _array(value)
    raise MessageError(f"a {type(value).__name__} has no encoding: send one of {Value}.")


def _sized(data: bytes) -> bytes:
    return encode_count(len(data)) + data


def _integer(value: int) -> bytes:
    length = value.bit_length() // 8 + 1
    if length > INTEGER_BYTES:
        raise MessageError(
            f"an integer of {length} bytes has no encoding: at most {INTEGER_BYTES}."
        )
    return _sized(value.to_bytes(length, "little", signed=True))


def _array(array: npt.NDArray[Any]) -> bytes:
    code = array.dtype.newbyteorder("<").str.removeprefix("|")
    if code not in DTYPES or array.ndim > DIMENSIONS:
        given = f"an array of {array.dtype} and {array.ndim} dimensions"
        allowed = f"its type must be {DTYPES}, of at most {DIMENSIONS} dimensions"
        raise MessageError(f"{given} has no encoding: {allowed}.")
    shape = b"".join(map(encode_count, array.shape))
    content = np.ascontiguousarray(array, dtype=code).tobytes()
    return bytes([DTYPES.index(code), array.ndim]) + shape + content


class Reader:
    """Takes values off the bytes of a message, one after the other.

    Every method raises a ValueError or an IndexError where the bytes hold no such value, or one
    beyond its bound.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that were not taken yet."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """Returns so many bytes."""
        if size > self.left:
            raise ValueError("they end too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def count(self) -> int:
        """Returns the number that `encode_count` wrote."""
        number = 0
        for shift in range(0, COUNT_BITS, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte <= 0x7F:
                return number
        raise ValueError(f"a count of more than {COUNT_BITS} bits")

    def party(self) -> int:
        """Returns the number that `encode_party` wrote."""
        folded = self.count()
        return folded // 2 if folded % 2 == 0 else -(folded + 1) // 2

    def text(self) -> str:
        """Returns the text that `encode_text` wrote."""
        return self._bounded("text", TEXT_BYTES).decode()

    def value(self, depth: int = 0) -> Value:
        """Returns the value that `encode_value` wrote; arrays are read-only."""
        match self.take(1):
            case b"i":
                data = self._bounded("integer", INTEGER_BYTES)
                return int.from_bytes(data, "little", signed=True)
            case b"f":
                return float(struct.unpack("<d", self.take(8))[0])
            case b"b":
                return self.take(self.count())
            case b"s":
                return self.text()
            case b"l":
                if depth == NESTING:
                    raise ValueError(f"a list in more than {NESTING} others")
                return [self.value(depth + 1) for _ in range(self.count())]
            case b"a":
                return self._array()
            case tag:
                raise ValueError(f"unknown tag {tag!r}")

    def _bounded(self, what: str, most: int) -> bytes:
        if (size := self.count()) > most:
            raise ValueError(f"{size} bytes of {what}, more than {most}")
        return self.take(size)

    def _array(self) -> npt.NDArray[Any]:
        code, dimensions = self.take(2)
        if dimensions > DIMENSIONS:
            raise ValueError(f"an array of {dimensions} dimensions, more than {DIMENSIONS}")
        dtype = np.dtype(DTYPES[code])
        shape = tuple(self.count() for _ in range(dimensions))
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        return np.frombuffer(self.take(size), dtype=dtype).reshape(shape)
