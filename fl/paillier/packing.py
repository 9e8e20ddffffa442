"""Many signed integers in one plaintext, so that plaintexts add up slot by slot."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError, MessageError
from fl.round.quantization import FixedPoint

Signed = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Packing:
    """How integers share plaintexts modulo n: the value of slot i times 2^(i slot_bits), summed.

    Guarantees:
        As long as every slot's sum is within +-limit, sums of plaintexts modulo n are the
        plaintexts of the sums: slots never run into each other, and n is never exceeded.

    Attributes:
        limit: the largest absolute value that a slot's sum may have.
        slots: values in a plaintext.
    """

    limit: int
    slots: int

    @classmethod
    def of_round(
        cls,
        key_bits: int,
        fixed_point: FixedPoint,
        weights: Collection[int],
        *,
        packed: bool = True,
    ) -> "Packing":
        """Returns the packing with room for the sum of the updates of clients of these weights.

        Args:
            key_bits: of n.
            fixed_point: how updates become integers.
            weights: of all clients of the round.
            packed: as many slots as there is room for; else one value a plaintext.

        Raises:
            ArgumentError: a slot would be longer than n or 64 bits.
        """
        fixed_point.check_weights(weights)
        scaled = (
            math.ldexp(fixed_point.clip * weight, fixed_point.frac_bits) for weight in weights
        )
        limit = sum(map(math.ceil, scaled))
        room = (key_bits - 1) // _slot_bits(limit)
        if room < 1:
            raise ArgumentError(
                "key_bits",
                key_bits,
                f"more than {_slot_bits(limit)}, the bits of a sum of {len(weights)} clients of "
                f"total weight {sum(weights)}",
                "Raise it, or lower {frac_bits} or the range of the fixed point.",
                code="range",
            )
        return cls(limit, room if packed else 1)

    @property
    def slot_bits(self) -> int:
        """Bits of a slot: enough for the limit and its sign."""
        return _slot_bits(self.limit)

    @property
    def _offset(self) -> int:
        """A plaintext whose slots are all 2^(slot_bits - 1): it makes slots unsigned."""
        ones = ((1 << self.slots * self.slot_bits) - 1) // ((1 << self.slot_bits) - 1)
        return ones << self.slot_bits - 1

    def count(self, size: int) -> int:
        """Returns how many plaintexts hold so many values."""
        return -(-size // self.slots)

    def pack(self, values: Signed, n: int) -> list[int]:
        """Returns plaintexts in 0..n - 1 of values (size,), the last one filled with zeros.

        Raises:
            ArgumentError: a value beyond the limit.
        """
        if values.size and max(-int(values.min()), int(values.max())) > self.limit:
            rule = f"within +-{self.limit}"
            raise ArgumentError("values", "one beyond", rule, code="range")
        bits, count = self.slot_bits, self.count(values.size)
        padded = np.zeros(count * self.slots, dtype=np.int64)
        padded[: values.size] = values
        unsigned = padded.view(np.uint64) + np.uint64(1 << bits - 1)
        places = _bits(unsigned.astype("<u8").view(np.uint8).reshape(-1, 8))[:, :bits]
        rows = np.packbits(places.reshape(count, -1), axis=1, bitorder="little")
        return [(int.from_bytes(row.tobytes(), "little") - self._offset) % n for row in rows]

    def unpack(self, plaintexts: Sequence[int], size: int, n: int) -> Signed:
        """Returns the values (size,) of plaintexts in 0..n - 1, or of sums of them.

        Raises:
            MessageError: a slot's sum is beyond the limit: what was added or decrypted is wrong.
        """
        room = self.slots * self.slot_bits
        if any((plaintext + self._offset) % n >> room for plaintext in plaintexts):
            raise MessageError("the plaintexts of the sum are out of range")
        values = self.slots_of(plaintexts, n)
        if max(-int(values.min()), int(values.max())) > self.limit or np.any(values[size:]):
            raise MessageError("values of the sum are out of range")
        return values[:size]

    def slots_of(self, plaintexts: Sequence[int], n: int) -> Signed:
        """Returns what stands in all slots (plaintexts * slots,) of any integers modulo n."""
        bits = self.slot_bits
        room = self.slots * bits
        length = (room + 7) // 8
        shifted = [(plaintext + self._offset) % n % (1 << room) for plaintext in plaintexts]
        joined = b"".join(plaintext.to_bytes(length, "little") for plaintext in shifted)
        rows = np.frombuffer(joined, dtype=np.uint8).reshape(len(plaintexts), length)
        places = np.zeros((len(plaintexts) * self.slots, 64), dtype=np.uint8)
        places[:, :bits] = _bits(rows)[:, :room].reshape(-1, bits)
        unsigned = np.packbits(places, axis=1, bitorder="little").view("<u8").ravel()
        values: Signed = (unsigned.astype(np.uint64) - np.uint64(1 << bits - 1)).view(np.int64)
        return values


def _slot_bits(limit: int) -> int:
    return limit.bit_length() + 1


def _bits(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.unpackbits(rows, axis=1, bitorder="little")


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
