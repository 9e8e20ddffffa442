"""Blocks of 128 bits: a hash of fixed-key AES, and bit matrices turned on their side."""

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from extensions.errors import TransferError
from extensions.two_party.lattice.residues import Words

Bytes = npt.NDArray[np.uint8]

BLOCK = 16
"""Bytes of a block."""
BITS = 8 * BLOCK
"""The security parameter: bits of a block, and transfers by public keys."""
_SIDE = 64
_SWAPS = tuple(
    (distance, np.uint64(sum(1 << bit for bit in range(_SIDE) if not bit & distance)))
    for distance in (32, 16, 8, 4, 2, 1)
)
_PORTION = 128
"""Words of a row that are turned at once: what fits in a processor's nearest caches."""


class Hash:
    """x -> AES_k(x) xor x: correlation-robust for different x, k being public.

    Guo, Katz, Wang and Yu (IEEE S&P 2020), in the model of an ideal cipher. The key, 16 bytes, is
    one session's, so that work against many sessions is not shared.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()

    def __call__(self, blocks: Bytes) -> Bytes:
        """Returns the hashes of blocks (..., 16)."""
        encrypted = self._cipher.update(np.ascontiguousarray(blocks).data)
        return np.frombuffer(encrypted, dtype=np.uint8).reshape(blocks.shape) ^ blocks


def transposed(rows: Words) -> Bytes:
    """Returns the columns of a bit matrix as blocks.

    Bit k of word c of the rows, (128, n / 64), is column 64 c + k; bit k of byte c of the result,
    (n, 16), is row 8 c + k.
    """
    turned = np.empty((rows.shape[1], _SIDE, 2), dtype="<u8")
    for start in range(0, rows.shape[1], _PORTION):
        part = rows[:, start : start + _PORTION].copy()
        _turn_squares(part)
        squares = part.reshape(2, _SIDE, part.shape[1])
        turned[start : start + _PORTION] = squares.transpose(2, 1, 0)
    return turned.view(np.uint8).reshape(-1, BLOCK)


def _turn_squares(words: Words) -> None:
    """Turns squares of 64 x 64 bits: bit c of row r becomes bit r of row c.

    Hacker's Delight (Warren, 2013), section 7-3: halves are swapped, then halves of those.
    """
    for distance, mask in _SWAPS:
        pairs = words.reshape(-1, 2, distance, words.shape[1])
        upper, lower = pairs[:, 0], pairs[:, 1]
        swapped = upper >> np.uint64(distance)
        swapped ^= lower
        swapped &= mask
        lower ^= swapped
        swapped <<= np.uint64(distance)
        upper ^= swapped


def check_size(what: str, message: bytes, size: int) -> None:
    """Raises TransferError unless a message has the size that it must have."""
    if len(message) != size:
        raise TransferError(
            f"the {what} has {len(message)} bytes instead of {size}: it was cut, or is of another"
            " step. Both sides must make the same transfers in the same order."
        )
