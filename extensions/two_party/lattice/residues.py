"""Integers modulo primes below 2^60, in NumPy's 64-bit words: scaling, large noise, uniform words.

Products are Montgomery's (Math. Comp. 44, 1985): x y 2^-64 modulo an odd prime takes three
multiplications of words and no division.
"""

import math
import os
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

Words = npt.NDArray[np.uint64]
"""Unsigned words: residues, or integers modulo 2^64."""

SEED_BYTES = 32
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def high(x: Words, y: np.uint64 | Words) -> Words:
    """Returns the upper 64 of the 128 bits of the products, elementwise."""
    x0, x1, y0, y1 = x & _LOW, x >> _HALF, y & _LOW, y >> _HALF
    middle = x1 * y0 + (x0 * y0 >> _HALF)
    crossed = x0 * y1 + (middle & _LOW)
    upper: Words = x1 * y1 + (middle >> _HALF) + (crossed >> _HALF)
    return upper


@lru_cache
def _negated_inverse(prime: int) -> np.uint64:
    """Returns -1/prime modulo 2^64."""
    return np.uint64(-pow(prime, -1, 1 << 64) % (1 << 64))


def reduce(x: Words, prime: int) -> Words:
    """Returns x 2^-64 modulo the prime, for words x; the result is in 0..prime, both included."""
    multiple = x * _negated_inverse(prime)
    result: Words = high(multiple, np.uint64(prime)) + (x != 0)
    return result


def multiply(x: Words, factor: int, prime: int) -> Words:
    """Returns x times a public factor modulo the prime, for words x below the prime."""
    y = np.uint64((factor << 64) % prime)
    total = high(x, y) + reduce(x * y, prime)
    return np.where(total >= prime, total - np.uint64(prime), total)


def add(x: Words, y: Words, primes: tuple[int, ...]) -> Words:
    """Returns x + y for residues of shape (..., primes, coefficients)."""
    modulus = _column(primes)
    total = x + y
    return np.where(total >= modulus, total - modulus, total)


def negate(x: Words, primes: tuple[int, ...]) -> Words:
    """Returns -x for residues of shape (..., primes, coefficients)."""
    return np.where(x == 0, x, _column(primes) - x)


def of_small(x: npt.NDArray[np.int64], primes: tuple[int, ...]) -> Words:
    """Returns the residues of 64-bit integers, shape (..., primes, n)."""
    return (x[..., None, :] % _column(primes).view(np.int64)).view(np.uint64)


def scaled(x: Words, primes: tuple[int, ...]) -> Words:
    """Returns x Q / 2^64 rounded, modulo every prime, Q their product: BFV's code modulo 2^64.

    With r = x Q modulo 2^64 its floor is (x Q - r) / 2^64, which is -r 2^-64 modulo any prime of Q.
    """
    rest = x * np.uint64(math.prod(primes) % (1 << 64))
    floor = negate(np.stack([reduce(rest, prime) for prime in primes], axis=-2), primes)
    return add(floor, (rest >> np.uint64(63))[..., None, :], primes)


def of_large(words: Words, offset: int, primes: tuple[int, ...]) -> Words:
    """Returns the residues of sum_lj 2^(64 l) words_lj - offset, shape (primes, n).

    `words` are (layers l, terms j, n), at most 8 of either; primes are below 2^60.
    """
    residues = []
    for prime in primes:
        modulus = np.uint64(prime)
        total = np.full(words.shape[-1], -offset % prime, dtype=np.uint64)
        for place, terms in enumerate(words):
            layer = (terms % modulus).sum(axis=0, dtype=np.uint64) % modulus
            total += multiply(layer, 1 << 64 * place, prime)
        residues.append(total % modulus)
    return np.stack(residues)


class Stream:
    """Words that nobody without the seed can tell from uniform ones: AES in counter mode.

    The seed, 16 or 32 bytes, is for one stream: secret, or public for what is to be compressed.
    """

    def __init__(self, seed: bytes | None = None) -> None:
        key = os.urandom(SEED_BYTES) if seed is None else seed
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def words(self, *shape: int) -> Words:
        """Returns the next words of that shape."""
        count = 8 * math.prod(shape)
        return np.frombuffer(self._cipher.update(bytes(count)), dtype="<u8").reshape(shape)

    def residues(self, polynomials: int, primes: tuple[int, ...], degree: int) -> Words:
        """Returns uniform residues, by rejection, of shape (polynomials, primes, degree)."""
        result = np.empty((polynomials, len(primes), degree), dtype=np.uint64)
        for index in np.ndindex(polynomials, len(primes)):
            prime, found = primes[index[1]], np.empty(0, dtype=np.uint64)
            while found.size < degree:
                drawn = self.words(degree) & np.uint64((1 << prime.bit_length()) - 1)
                found = np.concatenate([found, drawn[drawn < prime]])
            result[index] = found[:degree]
        return result


def centred_binomial(stream: Stream, polynomials: int, degree: int) -> npt.NDArray[np.int64]:
    """Returns errors of a lattice encryption: 21 fair bits less 21 others, as SEAL's own."""
    drawn = stream.words(polynomials, degree)
    bits = np.uint64((1 << ERROR_BOUND) - 1)
    plus, minus = drawn & bits, (drawn >> np.uint64(32)) & bits
    fair: npt.NDArray[np.int64] = np.bitwise_count(plus).astype(np.int64)
    fair -= np.bitwise_count(minus)
    return fair


ERROR_BOUND = 21
"""No error of an encryption is larger; the standard deviation is sqrt(10.5)."""


def _column(primes: tuple[int, ...]) -> Words:
    return np.array(primes, dtype=np.uint64)[:, None]
