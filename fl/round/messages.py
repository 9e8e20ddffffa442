"""Messages between parties, and their encoding in bytes, which is what is counted."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import MessageError
from fl.round.encoding import (
    DTYPES,
    Reader,
    Value,
    encode_count,
    encode_party,
    encode_text,
    encode_value,
)

Party = int
"""A client is its number, counted from 0. Other parties have numbers below 0."""
SERVER: Party = -1

VERSION = 1

__all__ = ["DTYPES", "SERVER", "Message", "Party", "Value", "party_name"]


def party_name(party: Party) -> str:
    """Returns how errors and reports name the party.

    Examples:
        >>> fl.protocols.party_name(fl.protocols.SERVER), fl.protocols.party_name(3)
        ('the server', 'client 3')
    """
    if party >= 0:
        return f"client {party}"
    return "the server" if party == SERVER else f"party {party}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Message:
    """Carries named values from one party to another.

    Attributes:
        round: number of the round that it belongs to.
        sender: who sends it.
        receiver: who is to get it.
        kind: what it is, such as "update"; a protocol's kinds are distinct.
        body: values by name. Arrays arrive read-only.

    Examples:
        >>> body = {"values": np.zeros(2)}
        >>> message = fl.protocols.Message(
        ...     round=1, sender=0, receiver=fl.protocols.SERVER, kind="update", body=body
        ... )
        >>> message.kind
        'update'
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

    def integer(self, name: str) -> int:
        """Returns the integer of that name, of 64 bits with its sign, or raises MessageError."""
        value = self.body.get(name)
        if type(value) is not int or not -(2**63) <= value < 2**63:
            raise self._without(f"an integer {name!r} of 64 bits")
        return value

    def real(self, name: str) -> float:
        """Returns the number of that name; raises MessageError if there is none that is finite."""
        value = self.body.get(name)
        if not isinstance(value, float) or not math.isfinite(value):
            raise self._without(f"a finite number {name!r}")
        return value

    def text(self, name: str, default: str) -> str:
        """Returns the text of that name; the default if there is none."""
        value = self.body.get(name)
        return value if isinstance(value, str) else default

    def clients(self, name: str) -> tuple[int, ...]:
        """Returns the distinct clients of that name; raises MessageError if there are none."""
        listed: list[int] = self.array(name, np.int64, (-1,)).tolist()
        if len(set(listed)) != len(listed) or any(client < 0 for client in listed):
            raise self._without(f"distinct clients as {name!r}")
        return tuple(listed)

    def _without(self, wanted: str) -> MessageError:
        return MessageError(f"{self.kind!r} of {party_name(self.sender)} must hold {wanted}")

    def encode(self) -> bytes:
        """Returns the bytes on the wire, from which `decode` makes an equal message.

        Version, round, sender, receiver, kind, number of values; of each value its name, a tag and
        its content. Counts and lengths are LEB128; arrays are little-endian, in C order, behind
        their type and shape; integers are in two's complement behind their length. Raises
        MessageError if a value has no encoding, or is beyond its bound (`fl.round.encoding`).
        """
        parts = [bytes([VERSION]), encode_count(self.round)]
        parts += [encode_party(party) for party in (self.sender, self.receiver)]
        parts += [encode_text(self.kind), encode_count(len(self.body))]
        for name, value in self.body.items():
            parts += [encode_text(name), encode_value(value)]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> "Message":
        """Returns the message in the bytes; raises MessageError if not all of them are one."""
        try:
            return cls._read(Reader(data))
        except (IndexError, ValueError) as error:
            raise MessageError(f"{len(data)} bytes that are no message: {error}") from error

    @classmethod
    def _read(cls, reader: Reader) -> "Message":
        if (version := reader.take(1)[0]) != VERSION:
            raise ValueError(f"version {version}, not {VERSION}")
        number, sender, receiver = reader.count(), reader.party(), reader.party()
        kind = reader.text()
        body = {reader.text(): reader.value() for _ in range(reader.count())}
        if reader.left:
            raise ValueError(f"{reader.left} bytes too many")
        return cls(round=number, sender=sender, receiver=receiver, kind=kind, body=body)
