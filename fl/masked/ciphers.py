"""Keys, masks, sealed shares: the standard cryptography of masked aggregation."""

import functools
import hashlib
import os
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from extensions.errors import MessageError
from fl.round.quantization import RingVector

KEY_BYTES = 32
TAG_BYTES = 16
_ONCE = bytes(12)


def fresh_key() -> bytes:
    """Returns 32 bytes from the operating system."""
    return os.urandom(KEY_BYTES)


def private_key(secret: bytes) -> X25519PrivateKey:
    """Returns the X25519 private key (RFC 7748) of 32 secret bytes, for many agreements."""
    return X25519PrivateKey.from_private_bytes(secret)


def public_key(private: X25519PrivateKey) -> bytes:
    """Returns the 32 bytes that are told to others."""
    return private.public_key().public_bytes_raw()


def agree(private: X25519PrivateKey, public: bytes, owner: int) -> bytes:
    """Returns the secret that the owners of both private keys share; use it in `derive` alone.

    Raises MessageError if the owner's public key has low order: everybody would know the result.
    """
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        reason = f"client {owner} advertises a key of low order, with which no secret is shared"
        raise MessageError(reason) from error


def derive(secret: bytes, session: bytes, *purpose: object) -> bytes:
    """Returns the key for one purpose in one session, by HKDF with SHA-256 (RFC 5869)."""
    info = " ".join(map(str, purpose)).encode()
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=session, info=info).derive(secret)


def commit(seed: bytes) -> bytes:
    """Returns a commitment to a seed: its SHA-256, which hides it since the seed is uniform."""
    return hashlib.sha256(b"individual seed" + seed).digest()


def mask(key: bytes, size: int, dtype: np.dtype[Any]) -> RingVector:
    """Returns the elements of the ring that the key expands to, by AES-256 in counter mode.

    Guarantees:
        Without the key they cannot be told from uniform ones; all 256 bits of the key count. A key
        serves for one mask.
    """
    cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    stream = cipher.update(_zeros(size * dtype.itemsize))
    return np.frombuffer(stream, dtype=dtype.newbyteorder("<")).astype(dtype, copy=False)


@functools.lru_cache(maxsize=1)
def _zeros(count: int) -> bytes:
    """Returns zero bytes, whose pages the system need not make anew for every mask."""
    return bytes(count)


def add_pair_mask(
    total: RingVector, secret: bytes, session: bytes, client: int, peer: int, sign: int = 1
) -> None:
    """Adds the mask that a client has with a peer to `total`, in place; sign -1 takes it off.

    The two masks of a pair are opposite. Its secret is from `agree`.
    """
    key = derive(secret, session, "pairwise mask", min(client, peer), max(client, peer))
    change = mask(key, total.size, total.dtype)
    if (client > peer) == (sign > 0):
        total += change
    else:
        total -= change


def seal(key: bytes, data: bytes) -> bytes:
    """Returns the data encrypted and authenticated, 16 bytes longer; a key serves for one message.

    It does not commit to the key: whoever knows it can make bytes that a second key opens.
    """
    return ChaCha20Poly1305(key).encrypt(_ONCE, data, None)


def unseal(key: bytes, sealed: bytes) -> bytes | None:
    """Returns what was sealed with the key; None if it was sealed with another key."""
    try:
        return ChaCha20Poly1305(key).decrypt(_ONCE, sealed, None)
    except InvalidTag:
        return None
