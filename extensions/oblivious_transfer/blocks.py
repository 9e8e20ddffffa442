"""Blocks of 128 bits: a hash of fixed-key AES, and bit matrices turned on their side."""

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from extensions.errors import TransferError

Bytes = npt.NDArray[np.uint8]

BLOCK = 16
"""Bytes of a block."""
BITS = 8 * BLOCK
"""The security parameter: bits of a block, and transfers by public keys."""
_SWAPS = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))


class Hash:
    """x -> AES_k(x) xor x: correlation-robust for different x, k being public.

    Guo, Katz, Wang and Yu (IEEE S&P 2020), in the model of an ideal cipher. The key is
    one session's, so that work against many sessions is not shared.

    Args:
        key: 16 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()

    def __call__(self, blocks: Bytes) -> Bytes:
        """Returns the hashes of blocks (..., 16)."""
        encrypted = self._cipher.update(np.ascontiguousarray(blocks).data)
        return np.frombuffer(encrypted, dtype=np.uint8).reshape(blocks.shape) ^ blocks


def transposed(rows: Bytes) -> Bytes:
    """Returns the columns of a bit matrix as blocks.

    Args:
        rows: (128, n / 8) bytes; bit k of byte c is column 8 c + k.

    Returns:
        (n, 16) bytes; bit k of byte c is row 8 c + k.
    """
    columns = rows.shape[1]
    squares = np.ascontiguousarray(rows.reshape(BLOCK, 8, columns).transpose(2, 0, 1))
    words = squares.view("<u8")[..., 0]
    for shift, mask in _SWAPS:
        swapped = words >> np.uint64(shift)
        swapped ^= words
        swapped &= np.uint64(mask)
        words ^= swapped
        words ^= swapped << np.uint64(shift)
    turned = words[..., None].view(np.uint8).transpose(0, 2, 1)
    return np.ascontiguousarray(turned).reshape(8 * columns, BLOCK)


def check_size(what: str, message: bytes, size: int) -> None:
    """Raises TransferError unless a message has the size that it must have."""
    if len(message) != size:
        raise TransferError(
            f"the {what} has {len(message)} bytes instead of {size}: it was cut, or is of another"
            " step. Both sides must make the same transfers in the same order."
        )
