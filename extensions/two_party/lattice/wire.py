"""Messages of the lattice: a head that names the product, and packed residues, checked."""

import hashlib
from collections.abc import Iterable

import numpy as np

from extensions.errors import CiphertextError
from extensions.two_party.lattice.plan import HEAD_BYTES, Convolution
from extensions.two_party.lattice.residues import Words
from extensions.two_party.lattice.scheme import Scheme, check_residues, sent_bits

_WORD = 64


def head(kind: str, plan: Convolution | None, scheme: Scheme) -> bytes:
    """Returns 32 bytes that are the same for the same kind, product and parameters alone."""
    said = f"pea lattice 2: {kind}, {plan}, {scheme.key_primes}"
    return hashlib.sha256(said.encode()).digest()[:HEAD_BYTES]


def body(kind: str, message: bytes, head: bytes, size: int) -> memoryview:
    """Returns a message without its head.

    Raises CiphertextError if it has another head or another size than expected.
    """
    if len(message) != size:
        raise CiphertextError(
            f"the {kind} has {len(message)} bytes instead of {size}: it was cut, or is for another"
            " product. Both sides must have the same shapes, bits and flooding."
        )
    if message[:HEAD_BYTES] != head:
        raise CiphertextError(
            f"the {kind} is damaged, or for another product or other parameters. Both sides need "
            "the same shapes, bits, flooding and version."
        )
    return memoryview(message)[HEAD_BYTES:]


def size(count: int, primes: Iterable[int]) -> int:
    """Returns the bytes of so many residues modulo each of the primes."""
    return sum(-(-count * _width(prime) // 8) for prime in primes)


def pack(residues: Words, primes: tuple[int, ...]) -> bytes:
    """Returns residues of shape (..., primes, any), one prime after the other, in `size` bytes."""
    return b"".join(
        _pack(residues[..., place, :].ravel(), _width(prime)) for place, prime in enumerate(primes)
    )


def unpack(kind: str, packed: memoryview, shape: tuple[int, ...], primes: tuple[int, ...]) -> Words:
    """Returns residues of shape (..., primes, any) from what `pack` made of them.

    Raises CiphertextError if one is not below its prime.
    """
    residues, start = np.empty(shape, dtype=np.uint64), 0
    for place, prime in enumerate(primes):
        held = residues[..., place, :]
        end = start + size(held.size, (prime,))
        held[...] = _unpack(packed[start:end], held.size, _width(prime)).reshape(held.shape)
        start = end
    check_residues(f"the {kind}", residues, primes)
    return residues


def _width(prime: int) -> int:
    return sent_bits(prime.bit_length())


def _pack(residues: Words, width: int) -> bytes:
    pairs = np.zeros((-(-residues.size // 2), 2), dtype=np.uint64)
    pairs.ravel()[: residues.size] = residues
    wide = np.empty((len(pairs), 2), dtype="<u8")
    wide[:, 0] = pairs[:, 0] | pairs[:, 1] << np.uint64(width)
    wide[:, 1] = pairs[:, 1] >> np.uint64(_WORD - width)
    return wide.view(np.uint8)[:, : width // 4].tobytes()[: -(-residues.size * width // 8)]


def _unpack(packed: memoryview, count: int, width: int) -> Words:
    each, pairs = width // 4, -(-count // 2)
    padded = np.zeros(pairs * each, dtype=np.uint8)
    padded[: len(packed)] = np.frombuffer(packed, dtype=np.uint8)
    wide = np.zeros((pairs, 16), dtype=np.uint8)
    wide[:, :each] = padded.reshape(pairs, each)
    low, upper = wide.view("<u8").astype(np.uint64).T
    mask = np.uint64((1 << width) - 1)
    second = (low >> np.uint64(width) | upper << np.uint64(_WORD - width)) & mask
    return np.stack([low & mask, second], axis=-1).ravel()[:count]
