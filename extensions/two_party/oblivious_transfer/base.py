"""128 oblivious transfers by public keys on Curve25519, for parties that follow the protocol.

Even, Goldreich and Lempel (CACM 28(6), 1985) with Diffie and Hellman's keys: of two public keys the
chooser has the private half of one, and drew the other as a point of which nobody knows it, even
from all that the chooser drew (Gertner et al., FOCS 2000, call such keys oblivious). X25519
(RFC 7748) is all that it takes of the curve.

Guarantees:
    Both keys are uniform in the group of prime order, to 2^-120: the choices are hidden from any
    computation. The other key's secret is hidden by the Diffie-Hellman assumption, in the random
    oracle model, from a chooser that follows the protocol; one that does not may know both.

Cost:
    Two messages, of 32 and 128 x 64 bytes; 512 multiplications on the curve in all, 0.04 s.
"""

import hashlib
import os

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from extensions.errors import TransferError
from extensions.two_party.oblivious_transfer.blocks import BITS, BLOCK, Bytes, check_size

KEY_BYTES = 32
_PRIME = 2**255 - 19
_COEFFICIENT = 486662


class BaseSender:
    """The party that gets two keys for each transfer; it has a new private key for each session."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.message = self._private.public_key().public_bytes_raw()
        """What the chooser needs first."""

    def keys(self, answer: bytes) -> Bytes:
        """Returns both keys of each transfer, shape (128, 2, 16).

        Raises TransferError if the answer has another size, or a point of small order.
        """
        check_size("chooser's answer", answer, BITS * 2 * KEY_BYTES)
        keys = np.empty((BITS, 2, BLOCK), dtype=np.uint8)
        for index, which in np.ndindex(BITS, 2):
            start = (2 * index + which) * KEY_BYTES
            public = answer[start : start + KEY_BYTES]
            shared = _exchange(self._private, public, "chooser's answer")
            keys[index, which] = _derived(index, which, public, self.message, shared)
        return keys


class BaseChooser:
    """The party that gets one of the two keys of each transfer, by choices that it draws.

    Raises TransferError if the sender's message has another size, or is a point of small order.
    """

    def __init__(self, message: bytes) -> None:
        check_size("sender's key", message, KEY_BYTES)
        self.choices: Bytes = np.frombuffer(os.urandom(BITS), dtype=np.uint8) & np.uint8(1)
        self.keys = np.empty((BITS, BLOCK), dtype=np.uint8)
        answer = []
        for index, chosen in enumerate(self.choices.tolist()):
            private = X25519PrivateKey.generate()
            public = private.public_key().public_bytes_raw()
            shared = _exchange(private, message, "sender's key")
            self.keys[index] = _derived(index, chosen, public, message, shared)
            answer += [oblivious_point(), public] if chosen else [public, oblivious_point()]
        self.answer = b"".join(answer)
        """What the sender needs; `keys` (128, 16) are those of `choices`."""


def oblivious_point() -> bytes:
    """Returns a uniform point of prime order whose logarithm nobody knows, not even its maker.

    It is a random multiple of a random point of the curve, the multiple being one of the cofactor.
    """
    while True:
        drawn = int.from_bytes(os.urandom(KEY_BYTES), "little") & (2**255 - 1)
        if drawn < _PRIME and on_curve(drawn):
            point = X25519PublicKey.from_public_bytes(drawn.to_bytes(KEY_BYTES, "little"))
            return X25519PrivateKey.generate().exchange(point)


def on_curve(u: int) -> bool:
    """Says whether v^2 = u^3 + 486662 u^2 + u has a solution v, other than 0, modulo 2^255 - 19."""
    return pow(u * (u * u + _COEFFICIENT * u + 1), (_PRIME - 1) // 2, _PRIME) == 1


def _exchange(private: X25519PrivateKey, public: bytes, what: str) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise TransferError(f"the {what} has a point of small order, which is no key.") from error


def _derived(index: int, which: int, public: bytes, other: bytes, shared: bytes) -> Bytes:
    said = b"pea base transfer 1" + bytes([index, which]) + public + other + shared
    return np.frombuffer(hashlib.sha256(said).digest()[:BLOCK], dtype=np.uint8)
