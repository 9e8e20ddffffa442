"""Large integers in messages: each is one row of little-endian bytes."""

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.uint8]


def as_rows(integers: Sequence[int], length: int) -> Rows:
    """Returns the integers as (count, length) bytes."""
    joined = b"".join(integer.to_bytes(length, "little") for integer in integers)
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, length)


def as_integers(rows: Rows) -> list[int]:
    """Returns the integers of which `as_rows` made the rows."""
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def is_modulus(value: object, key_bits: int) -> TypeGuard[int]:
    """Returns whether the value can be n of a key of so many bits."""
    return (
        isinstance(value, int) and value.bit_length() == key_bits and value % 2 == 1 and value > 0
    )
