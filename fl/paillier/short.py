"""Fast encryption: short exponents of a fixed base, whose powers are in a table.

Instead of r^n for a random unit r, a ciphertext is randomised by h_s^a, where h = -x^2 mod n,
h_s = h^n mod n^2, and a is random with half as many bits as n.

Guarantees:
    Semantically secure for keys of `keygen`, whose primes are 3 modulo 4 with gcd(p - 1, q - 1) =
    2, under the decisional composite residuosity assumption, and because powers of h by exponents
    of half length are indistinguishable from those by full ones, unless factoring is easy. x is the
    SHAKE-256 of n: a function of the public key, which nobody chooses.

Edge cases:
    Which entries of the table are read depends on a: somebody who observes the caches of the
    encrypting machine could learn about it.

Source:
    Damgard, Jurik and Nielsen, Int. J. Information Security 9 (2010), 371-385; fixed-base windows:
    Brickell, Gordon, McCurley and Wilson, EUROCRYPT 1992.
"""

import hashlib
import secrets
from functools import lru_cache
from typing import Any

import gmpy2
from gmpy2 import mpz

from extensions.errors import ArgumentError
from fl.paillier.keys import PublicKey

WINDOW = 8
"""Bits of an exponent that are looked up at a time: a byte."""

Table = tuple[tuple[Any, ...], ...]


@lru_cache(maxsize=2)
def _table(n: int) -> Table:
    """Returns h_s^(b 2^(8 i)) for each place i and byte b; public, hence shared by all who encrypt.

    16.7 MB at 2048 bits.
    """
    square = mpz(n) ** 2
    base, rows = gmpy2.powmod(base_of(n), n, square), []
    for _ in range(_bytes(n)):
        row = [mpz(1)]
        for _ in range(2**WINDOW):
            row.append(row[-1] * base % square)
        base = row.pop()
        rows.append(tuple(row))
    return tuple(rows)


def base_of(n: int) -> Any:
    """Returns h = -x^2 mod n, where x is the SHAKE-256 of n, of 128 bits more than n."""
    length = (n.bit_length() + 7) // 8
    seed = b"PEA Paillier h" + n.to_bytes(length, "big")
    x = mpz(int.from_bytes(hashlib.shake_256(seed).digest(length + 16), "big"))
    return -x * x % n


def _bytes(n: int) -> int:
    return (n.bit_length() + 15) // 16


class ShortRandomness:
    """Encrypts under a key with a multiplication modulo n^2 for each byte of a short exponent.

    Cost:
        The table of a key is computed once in a process, with 32,640 multiplications at 2048 bits;
        then a ciphertext takes 128 instead of about 2,400 for r^n.

    Args:
        public: a key of `keygen`; for others the guarantee is not known to hold.
    """

    def __init__(self, public: PublicKey) -> None:
        self.public = public
        self._table = _table(public.n)

    def encrypt(self, plaintext: int) -> int:
        """Returns a ciphertext of an integer in 0..n - 1.

        Raises:
            ArgumentError: a plaintext out of range; never shows it.
        """
        n, square = self.public.n, self.public.n_squared
        if not isinstance(plaintext, int) or not 0 <= plaintext < n:
            rule = "an integer in 0..n - 1"
            raise ArgumentError("plaintext", "one beyond", rule, code="range")
        ciphertext = 1 + n * mpz(plaintext)
        for row, byte in zip(self._table, secrets.token_bytes(len(self._table)), strict=True):
            ciphertext = ciphertext * row[byte] % square
        return int(ciphertext)
