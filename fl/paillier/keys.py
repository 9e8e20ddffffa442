"""Paillier's keys: drawn from the operating system's generator, and checked when they are made."""

import hashlib
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gmpy2
from gmpy2 import mpz

from extensions.checks import is_whole
from extensions.errors import ArgumentError
from fl.round.encoding import INTEGER_BYTES

SECURE_BITS = 2048
"""Fewest bits of n that count as secure (NIST SP 800-57: 112 bits)."""

SMALLEST_BITS = 64
LARGEST_BITS = 8 * INTEGER_BYTES - 16
"""So that n is an integer of a message."""


@dataclass(frozen=True)
class PublicKey:
    """The key that encrypts and adds.

    Attributes:
        n: product of two primes.

    Raises:
        ArgumentError: n is even, or below 15.
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 15 or self.n % 2 == 0:
            raise ArgumentError("n", self.n, "a product of two odd primes")

    @cached_property
    def n_squared(self) -> Any:
        """Modulus of the ciphertexts, as gmpy2 has it."""
        return mpz(self.n) ** 2

    @cached_property
    def fingerprint(self) -> str:
        """First 128 bits of the SHA-256 of n in big-endian bytes, in hexadecimal."""
        encoded = self.n.to_bytes((self.n.bit_length() + 7) // 8, "big")
        return hashlib.sha256(encoded).hexdigest()[:32]

    def __repr__(self) -> str:
        return f"PublicKey({self.n.bit_length()} bits, {self.fingerprint})"


@dataclass(frozen=True, repr=False)
class PrivateKey:
    """The key that decrypts. Its repr never shows the primes.

    Attributes:
        p: a prime.
        q: another prime.

    Raises:
        ArgumentError: p and q are equal or not prime, or n divides with (p - 1) (q - 1).
    """

    p: int
    q: int

    def __post_init__(self) -> None:
        p, q = self.p, self.q
        if p == q or not (gmpy2.is_prime(p) and gmpy2.is_prime(q)):
            raise ArgumentError("p, q", "those given", "two different primes")
        if gmpy2.gcd(mpz(p) * q, (mpz(p) - 1) * (q - 1)) != 1:
            raise ArgumentError("p, q", "those given", "such that gcd(p q, (p - 1) (q - 1)) is 1")

    @cached_property
    def public(self) -> PublicKey:
        """The key with n = p q."""
        return PublicKey(self.p * self.q)

    @cached_property
    def _parts(self) -> tuple[tuple[Any, Any, Any, Any], ...]:
        """For each prime: it, its square, exponent, and inverse of L(g^(p - 1) mod p^2)."""
        pairs = ((mpz(self.p), mpz(self.q)), (mpz(self.q), mpz(self.p)))
        return tuple((a, a * a, a - 1, gmpy2.invert(-b, a)) for a, b in pairs)

    @cached_property
    def _p_inverse(self) -> Any:
        return gmpy2.invert(self.p, self.q)

    def raw_decrypt(self, ciphertext: Any) -> Any:
        """Returns the plaintext in 0..n - 1 of a ciphertext that was checked; both as mpz."""
        at_p, at_q = (
            (gmpy2.powmod_sec(ciphertext % square, exponent, square) - 1) // prime * inverse % prime
            for prime, square, exponent, inverse in self._parts
        )
        return at_p + self.p * ((at_q - at_p) * self._p_inverse % self.q)

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.fingerprint})"


def check_bits(bits: int, *, insecure_small_key: bool) -> None:
    """Checks that keys of so many bits are allowed: enough, and a multiple of 16."""
    least = SMALLEST_BITS if insecure_small_key else SECURE_BITS
    if not is_whole(bits, range(least, LARGEST_BITS + 1, 16)):
        raise ArgumentError(
            "key_bits",
            bits,
            f"a multiple of 16 in {least}..{LARGEST_BITS}",
            "" if insecure_small_key else "For experiments, give {insecure_small_key=True}.",
            code="range",
        )


def keygen(key_bits: int = SECURE_BITS, *, insecure_small_key: bool = False) -> PrivateKey:
    """Returns a new key; n has exactly so many bits.

    The primes are uniform among those of half the bits whose two leading bits are set and that are
    3 modulo 4, with gcd(p - 1, q - 1) = 2, as short randomness needs (`fl.paillier.short`).

    Args:
        key_bits: of n.
        insecure_small_key: allow fewer than 2048 bits, which can be broken.

    Raises:
        ArgumentError: too few bits, or no multiple of 16.
    """
    check_bits(key_bits, insecure_small_key=insecure_small_key)
    half = key_bits // 2
    while True:
        p, q = _prime(half), _prime(half)
        if abs(p - q) >> max(half - 100, 0) and gmpy2.gcd(p - 1, q - 1) == 2:
            return PrivateKey(p, q)


def _prime(bits: int) -> int:
    while True:
        drawn = secrets.randbits(bits) | 0b11 << bits - 2 | 0b11
        if gmpy2.is_prime(drawn):
            return drawn
