"""What parties ask of the dealer: a kind of tuple and public numbers, never a value."""

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from extensions.errors import ArgumentError

DIGEST_BYTES = 16
LONGEST = 8 << 10
"""Characters of a request as JSON, which bound what is kept for it; of LeNet-5 one has some 500."""


@dataclass(frozen=True)
class Request:
    """One tuple to deal: its kind and its public parameters (shapes, counts, an operation's name).

    Different requests have different digests but for a collision of 128 bits of SHA-256.
    """

    kind: str
    parameters: tuple[Any, ...]

    @classmethod
    def of(cls, kind: str, *parameters: Any) -> "Request":
        """Returns the request with its parameters as nested tuples of integers and strings."""
        return cls(kind, tuple(_freeze(parameter) for parameter in parameters))

    @classmethod
    def parse(cls, plain: Any) -> "Request":
        """Returns the request that `plain` described.

        Raises ValueError if it describes none, or one of more than `LONGEST` characters.
        """
        match plain:
            case [str(kind), list(parameters)]:
                if (size := len(json.dumps(plain))) > LONGEST:
                    raise ValueError(f"a request has at most {LONGEST} characters, not {size}")
                return cls.of(kind, *parameters)
        raise ValueError("a request is a kind and a list of its parameters")

    def plain(self) -> list[Any]:
        """Returns what JSON can carry, from which `parse` makes an equal request."""
        return [self.kind, self.parameters]

    @functools.cached_property
    def digest(self) -> bytes:
        """Names this request among all others."""
        return hashlib.sha256(json.dumps(self.plain()).encode()).digest()[:DIGEST_BYTES]


def _freeze(value: Any) -> Any:
    if isinstance(value, list | tuple | range):
        return tuple(_freeze(entry) for entry in value)
    if isinstance(value, int):
        return int(value)
    if value is None or isinstance(value, str):
        return value
    allowed = "an integer, a string or a sequence"
    raise ArgumentError("parameter", type(value).__name__, allowed, code="type")
