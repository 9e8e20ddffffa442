"""Paillier's cryptosystem as in the textbook, with g = n + 1: ciphertexts whose plaintexts add up.

    private = keygen(2048)
    c = enc_add(private.public, encrypt(private.public, 20), encrypt(private.public, 22))
    assert decrypt(private, c) == 42

Plaintexts and ciphertexts are integers; the same as those of `phe`'s `raw_encrypt` and
`raw_decrypt`. Fractions are refused. Source: Paillier, EUROCRYPT 1999, Scheme 1.
"""

import operator
import secrets

import gmpy2
from gmpy2 import mpz

from extensions.errors import ArgumentError, CiphertextError
from fl.paillier.keys import PrivateKey, PublicKey


def encrypt(public: PublicKey, plaintext: int, r: int | None = None) -> int:
    """Returns (1 + n m) r^n mod n^2: a ciphertext of m modulo n.

    Args:
        public: the key.
        plaintext: m, in -(n // 2)..n - 1; a negative one stands for n + m.
        r: a unit modulo n; drawn from the operating system's generator unless given. An r that is
            known, or used twice, reveals the plaintext.

    Raises:
        ArgumentError: a plaintext or r out of range; never shows the plaintext.
    """
    n, plaintext = public.n, _whole("plaintext", plaintext)
    if not -(n // 2) <= plaintext < n:
        raise ArgumentError(
            "plaintext",
            f"an integer of {plaintext.bit_length()} bits",
            f"in -(n // 2)..n - 1, for n of {n.bit_length()} bits",
            code="range",
        )
    if r is None:
        r = _unit(n)
    elif not 0 < (r := _whole("r", r)) < n or gmpy2.gcd(r, n) != 1:
        rule = "in 1..n - 1, without a common divisor with n"
        raise ArgumentError("r", "one beyond", rule, code="range")
    square = public.n_squared
    return int((1 + n * mpz(plaintext)) * gmpy2.powmod(r, n, square) % square)


def decrypt(private: PrivateKey, ciphertext: int) -> int:
    """Returns the plaintext in 0..n - 1, by the Chinese remainder theorem.

    The time of its exponentiations depends on the key's size alone.

    Raises:
        CiphertextError: the integer is no ciphertext under this key.
        ArgumentError: it is no integer.
    """
    ciphertext = _whole("ciphertext", ciphertext)
    check_ciphertext(private.public, ciphertext)
    return int(private.raw_decrypt(mpz(ciphertext)))


def decrypt_signed(private: PrivateKey, ciphertext: int) -> int:
    """Returns the plaintext as the integer in -(n // 2)..n // 2.

    Raises:
        CiphertextError: the integer is no ciphertext under this key.
    """
    plaintext, n = decrypt(private, ciphertext), private.public.n
    return plaintext if plaintext <= n // 2 else plaintext - n


def enc_add(public: PublicKey, first: int, second: int) -> int:
    """Returns a ciphertext of the sum of two plaintexts, modulo n.

    Raises:
        ArgumentError: a ciphertext that is no integer.
    """
    first, second = _whole("ciphertext", first), _whole("ciphertext", second)
    return int(mpz(first) * second % public.n_squared)


def enc_add_const(public: PublicKey, ciphertext: int, constant: int) -> int:
    """Returns a ciphertext of the plaintext plus a public integer of any sign, modulo n.

    The randomness stays the same: whoever knows the earlier ciphertext knows what was added.

    Raises:
        ArgumentError: a constant, or a ciphertext, that is no integer.
    """
    ciphertext, constant = _whole("ciphertext", ciphertext), _whole("constant", constant)
    return int(ciphertext * (1 + public.n * (mpz(constant) % public.n)) % public.n_squared)


def enc_mul_const(public: PublicKey, ciphertext: int, constant: int) -> int:
    """Returns a ciphertext of the plaintext times a public integer of any sign, modulo n.

    No randomness is added: whoever knows the earlier ciphertext can find the constant by trying.

    Raises:
        ArgumentError: a constant, or a ciphertext, that is no integer.
    """
    ciphertext, constant = _whole("ciphertext", ciphertext), _whole("constant", constant)
    return int(gmpy2.powmod(ciphertext, mpz(constant) % public.n, public.n_squared))


def check_ciphertext(public: PublicKey, ciphertext: int) -> None:
    """Checks that the integer is a unit in 1..n^2 - 1, as every ciphertext under the key is.

    A ciphertext under another key may pass as well.

    Raises:
        CiphertextError: it is not.
    """
    if not 0 < ciphertext < public.n_squared:
        raise CiphertextError(
            f"an integer of {int(ciphertext).bit_length()} bits is no ciphertext under key "
            f"{public.fingerprint}: it must be in 1..n^2 - 1"
        )
    if gmpy2.gcd(ciphertext, public.n) != 1:
        raise CiphertextError(
            f"a multiple of a divisor of n is no ciphertext under key {public.fingerprint}"
        )


def _whole(name: str, value: int) -> int:
    """Returns the value as an integer; never shows it, and never cuts a fraction off."""
    try:
        return operator.index(value)
    except TypeError as error:
        given = f"a value of type {type(value).__name__}"
        hint = "For a fraction, encrypt round(value * 2**f) and divide the result by 2**f."
        raise ArgumentError(name, given, "an integer", hint, code="type") from error


def _unit(n: int) -> int:
    while True:
        drawn = secrets.randbelow(n - 1) + 1
        if gmpy2.gcd(drawn, n) == 1:
            return drawn
