"""Uniform ring words from AES-256 in counter mode: what masks are drawn from."""

import os
from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from extensions.errors import ArgumentError

KEY_BYTES = 32
WORD_BYTES = 8
_BLOCK = bytes(1 << 16)
_SPARE = 15
"""Bytes that the cipher wants beside those that it writes."""


class Keystream:
    """A stream of uniform 64-bit words that nobody without its key can tell from random.

    Two streams of one key give equal words as long as they are asked for equal numbers of them.
    The counter, of which `counter` is the first, never repeats within 2^132 bytes; a key is used
    for one stream.
    """

    device = torch.device("cpu")
    """Where the words are, as a torch.Generator says it."""

    def __init__(self, key: bytes, counter: int = 0) -> None:
        if len(key) != KEY_BYTES:
            raise ArgumentError("key", f"{len(key)} bytes", f"{KEY_BYTES} bytes", code="shape")
        mode = modes.CTR(counter.to_bytes(16, "big"))
        self._cipher = Cipher(algorithms.AES(key), mode).encryptor()

    @classmethod
    def fresh(cls) -> Self:
        """Returns a stream that only this process knows, keyed by the operating system."""
        return cls(os.urandom(KEY_BYTES))

    def words(self, shape: Sequence[int]) -> torch.Tensor:
        """Returns the next words of the stream as a torch.int64 tensor of that shape."""
        size = torch.Size(tuple(shape))
        room = np.empty(size.numel() + _SPARE // WORD_BYTES + 1, dtype=np.int64)
        self._fill(room.data.cast("B"), WORD_BYTES * size.numel())
        return torch.from_numpy(room[: size.numel()]).reshape(size)

    def bytes(self, count: int) -> bytearray:
        """Returns the next `count` bytes of the stream."""
        result = bytearray(count + _SPARE)
        with memoryview(result) as room:
            self._fill(room, count)
        del result[count:]
        return result

    def _fill(self, room: memoryview, count: int) -> None:
        zeros = memoryview(_BLOCK)
        for start in range(0, count, len(_BLOCK)):
            self._cipher.update_into(zeros[: count - start], room[start:])


class KeyedGenerator(Keystream, torch.Generator):
    """A keystream in the place of one of CrypTen's generators, with a seed as those have.

    Its first seed follows from the key and tells nothing of it. What torch itself draws with it is
    as predictable as that seed; masks are `words`, and follow from the key alone.
    """

    def __new__(cls, key: bytes) -> Self:
        """Returns a generator whose state is not that of the key yet."""
        return torch.Generator.__new__(cls)

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        digest = derive_key(key, "initial seed")
        torch.Generator.manual_seed(self, int.from_bytes(digest[:WORD_BYTES]) >> 1)

    def manual_seed(self, seed: int) -> Self:
        """Takes its words from the seed from here on, as `crypten.manual_seed` asks for.

        CrypTen allows that in debug mode only: whoever knows the seed knows the masks.
        """
        Keystream.__init__(self, derive_key(str(seed).encode(), "manual seed"))
        torch.Generator.manual_seed(self, seed)
        return self


def derive_key(secret: bytes, purpose: str) -> bytes:
    """Returns a key for one purpose from a shared secret, by HKDF with SHA-256."""
    kdf = HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=purpose.encode())
    return kdf.derive(secret)
