"""Messages of the lattice: a head that names the product, and residues of 60 bits, checked."""

import hashlib

import numpy as np

from extensions.errors import CiphertextError
from extensions.lattice.plan import HEAD_BYTES, Convolution
from extensions.lattice.residues import Words
from extensions.lattice.scheme import Scheme, check_residues

_FOUR = np.uint64(4)
_SIXTY = np.uint64(60)


def head(kind: str, plan: Convolution | None, scheme: Scheme) -> bytes:
    """Returns 32 bytes that are the same for the same kind, product and parameters alone."""
    said = f"pea lattice 1: {kind}, {plan}, {scheme.key_primes}"
    return hashlib.sha256(said.encode()).digest()[:HEAD_BYTES]


def body(kind: str, message: bytes, head: bytes, size: int) -> memoryview:
    """Returns a message without its head.

    Raises:
        CiphertextError: it has another head or another size than expected.
    """
    if len(message) != size:
        raise CiphertextError(
            f"the {kind} has {len(message)} bytes instead of {size}: it was cut, or is for another"
            " product. Both sides must have the same shapes, bits and flooding."
        )
    if message[:HEAD_BYTES] != head:
        raise CiphertextError(
            f"the {kind} is none, or is for another product or other parameters. Both sides must"
            " have the same shapes, bits, flooding and version."
        )
    return memoryview(message)[HEAD_BYTES:]


def pack(residues: Words) -> bytes:
    """Returns an even number of residues below 2^60, in 7.5 bytes each."""
    pairs = residues.reshape(-1, 2)
    packed = np.empty((len(pairs), 15), dtype=np.uint8)
    first = pairs[:, 0] | pairs[:, 1] << _SIXTY
    packed[:, :8] = first.astype("<u8")[:, None].view(np.uint8)
    packed[:, 8:] = (pairs[:, 1] >> _FOUR).astype("<u8")[:, None].view(np.uint8)[:, :7]
    return packed.tobytes()


def unpack(kind: str, packed: memoryview, shape: tuple[int, ...], primes: tuple[int, ...]) -> Words:
    """Returns residues of shape (..., primes, any) from what `pack` made of them.

    Raises:
        CiphertextError: one is not below its prime.
    """
    pairs = np.frombuffer(packed, dtype=np.uint8).reshape(-1, 15)
    wide = np.zeros((len(pairs), 16), dtype=np.uint8)
    wide[:, :15] = pairs
    words = wide.view("<u8").astype(np.uint64)
    first = words[:, 0] & np.uint64((1 << 60) - 1)
    second = words[:, 1] << _FOUR | words[:, 0] >> _SIXTY
    residues = np.stack([first, second], axis=-1).reshape(shape)
    check_residues(f"the {kind}", residues, primes)
    return residues
