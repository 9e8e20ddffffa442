"""CrypTen's objects as bytes and back: values of known types, and nothing that is executed.

A value is a letter, and then what its kind needs. Collections hold values. CrypTen itself sends
sizes, numbers, texts, tensors and requests for tuples.
"""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from extensions.errors import ArgumentError, MessageError

from crypten.common.serial import RestrictedUnpickler

LARGEST = 1 << 30
"""Bytes of an object."""
_DEEPEST = 32
_LENGTH = struct.Struct(">I")
_FLOAT = struct.Struct(">d")
_COLLECTIONS: dict[bytes, type[Any]] = {
    b"l": list,
    b"t": tuple,
    b"z": torch.Size,
    b"e": set,
    b"d": dict,
    b"o": OrderedDict,
}
_LETTERS = {kind: letter for letter, kind in _COLLECTIONS.items()}
_DTYPES = {str(one): one for one in vars(torch).values() if isinstance(one, torch.dtype)}
_BROKEN = (struct.error, LookupError, AttributeError, TypeError, ValueError, RuntimeError)
_ALLOWED = (
    "None, bool, int, float, str, bytes, a dtype, a device, a CPU tensor or array, a list, tuple, "
    "set or dict of them, a torch.nn layer, or a class from "
    "crypten.common.serial.register_safe_class"
)


def encode(value: Any) -> bytes:
    """Returns the bytes of a value; ArgumentError for a value of another type."""
    parts: list[bytes] = []
    _put(value, parts)
    return b"".join(parts)


def decode(message: bytes) -> Any:
    """Returns the value of bytes that `encode` made; MessageError if they are no such bytes."""
    reader = _Reader(message)
    try:
        value = reader.value(_DEEPEST)
    except _BROKEN as error:
        raise MessageError(f"no object: {error}") from error
    if reader.left:
        raise MessageError(f"{reader.left} bytes after an object")
    return value


def _put(value: Any, parts: list[bytes]) -> None:
    kind = type(value)
    if kind in _LETTERS:
        items = (
            [one for pair in value.items() for one in pair]
            if kind in (dict, OrderedDict)
            else value
        )
        parts.append(_LETTERS[kind] + _LENGTH.pack(len(items)))
        for one in items:
            _put(one, parts)
    elif kind in _SCALARS:
        letter, write = _SCALARS[kind]
        parts.append(letter + _sized(write(value)))
    elif isinstance(value, torch.nn.Module) and _name_of(kind) in _layers():
        parts.append(b"M")
        _put((_name_of(kind), vars(value)), parts)
    elif kind is torch.nn.Parameter:
        parts.append(b"P")
        _put((value.detach(), bool(value.requires_grad)), parts)
    elif isinstance(value, torch.Tensor) and value.device.type == "cpu":
        flat = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        parts.append(b"T")
        _put((value.dtype, tuple(value.shape), bool(value.requires_grad), flat), parts)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        parts.append(b"A")
        _put((value.dtype.str, value.shape, value.tobytes()), parts)
    else:
        raise ArgumentError("obj", kind.__name__, _ALLOWED, code="type")


def _layers() -> dict[str, type[torch.nn.Module]]:
    """The classes of modules that may come, by name: torch's own, and those that CrypTen allows."""
    registered = vars(RestrictedUnpickler)["_RestrictedUnpickler__SAFE_CLASSES"].values()
    return {
        _name_of(one): one
        for one in (*vars(torch.nn).values(), *registered)
        if isinstance(one, type) and issubclass(one, torch.nn.Module)
    }


def _name_of(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _sized(text: bytes) -> bytes:
    return _LENGTH.pack(len(text)) + text


def _octets(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0)


def _integer(value: int) -> bytes:
    return int(value).to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


_SCALARS: dict[type[Any], tuple[bytes, Callable[[Any], bytes]]] = {
    type(None): (b"n", lambda value: b""),
    bool: (b"b", lambda value: bytes([value])),
    int: (b"i", _integer),
    float: (b"f", _FLOAT.pack),
    str: (b"s", str.encode),
    bytes: (b"x", bytes),
    torch.dtype: (b"y", lambda value: str(value).encode()),
    torch.device: (b"v", lambda value: str(value).encode()),
}
_BACK: dict[bytes, Callable[[bytes], Any]] = {
    b"n": lambda text: None,
    b"b": lambda text: text == b"\1",
    b"i": lambda text: int.from_bytes(text, "big", signed=True),
    b"f": lambda text: _FLOAT.unpack(text)[0],
    b"s": bytes.decode,
    b"x": bytes,
    b"y": lambda text: _DTYPES[text.decode()],
    b"v": lambda text: torch.device(text.decode()),
}


class _Reader:
    def __init__(self, message: bytes) -> None:
        self._message, self._at = message, 0

    @property
    def left(self) -> int:
        return len(self._message) - self._at

    def value(self, depth: int) -> Any:
        letter = self._take(1)
        if letter in _BACK:
            return _BACK[letter](self._take(self._length()))
        if not depth:
            raise ValueError("it is too deep")
        if letter == b"T":
            dtype, shape, gradient, data = self.value(depth - 1)
            if len(data) != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"{len(data)} bytes for {shape} of {dtype}")
            found = torch.empty(shape, dtype=dtype)
            found.reshape(-1).view(torch.uint8).copy_(_octets(data))
            return found.requires_grad_(gradient)
        if letter == b"P":
            return torch.nn.Parameter(*self.value(depth - 1))
        if letter == b"M":
            name, state = self.value(depth - 1)
            module = torch.nn.Module.__new__(_layers()[name])
            vars(module).update(state)
            return module
        if letter == b"A":
            kind, shape, data = self.value(depth - 1)
            return np.frombuffer(bytearray(data), np.dtype(kind)).reshape(shape)
        if letter not in _COLLECTIONS:
            raise ValueError(f"{letter!r} begins no value")
        number = self._length()
        if number > self.left:
            raise ValueError(f"{number} values in {self.left} bytes")
        items = [self.value(depth - 1) for _ in range(number)]
        if letter in (b"d", b"o"):
            return _COLLECTIONS[letter](zip(items[::2], items[1::2], strict=True))
        return _COLLECTIONS[letter](items)

    def _length(self) -> int:
        return int(_LENGTH.unpack(self._take(_LENGTH.size))[0])

    def _take(self, size: int) -> bytes:
        if size > self.left:
            raise ValueError("it ends early")
        found = self._message[self._at : self._at + size]
        self._at += size
        return found
