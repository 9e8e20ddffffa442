"""The lattice scheme: Microsoft SEAL's ring, keys and transforms, on residues in NumPy.

SEAL comes by the wheel `seal-python`, which has 4.4 for Python 3.11 to 3.13 on Linux, macOS and
Windows. OpenFHE's wheel holds a module for one Python (3.10 or 3.12, by its version), which 3.11
and 3.13 do not import, and TenSEAL reaches no coefficients. The binding gives no access to
a ciphertext's polynomials, but reads and writes SEAL's documented serialisation, uncompressed,
in a memory copy; so residues go through it (`Scheme.pack`), and what is needed beyond SEAL's own
encoder is possible: messages modulo 2^64, flooding noise, ciphertexts whose random half is a seed,
and answers of which the needed coefficients travel alone.

Nothing that came from another party reaches SEAL's parser: the header is always our own.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from extensions.errors import CiphertextError, optional
from extensions.ring.fixed_point import Integers
from extensions.two_party.lattice.residues import Words, of_small

if TYPE_CHECKING:
    import seal

DEGREE = 8192
PRIME_SIZES = (40, 40, 60, 60, 17)
"""217 bits in all: of 218 that the standard of 2018 (homomorphicencryption.org) has for 128 bits.

The first four are a fresh ciphertext's: 2^200 holds the noise of a product by whole words, and with
sizes of multiples of 4 bits residues are packed tightly. The first two are an answer's: beyond the
word an error of 2^15 has room, where divisions leave 2^12 of a secret of 8192 signs. The last is
SEAL's own, for public keys.
"""
FRESH, ANSWERED = 4, 2
"""How many of them are the modulus of a request's ciphertexts, and of an answer's."""
_PLAIN_BITS = 59
"""The largest plaintext modulus that SEAL takes: a product of 64-bit words is decrypted in two."""
_HEAD, _CIPHER_HEAD, _PLAIN_HEAD = 16, 113, 88
PORTION = 7
"""Polynomials that are turned at once, for time and memory; SEAL's ciphertexts have 16 at most."""


def sent_bits(bits: int) -> int:
    """Returns what a residue takes in a message, of a prime of so many bits: two, whole bytes."""
    return -(-bits // 4) * 4


class Scheme:
    """SEAL's context at degree 8192, with residues (polynomials, primes, 8192) in and out.

    `primes` are those of a fresh ciphertext, `answer_primes` those that are left when an answer was
    divided by the others. Raises MissingExtraError if `seal-python` is not installed.
    """

    def __init__(self) -> None:
        self._seal = seal = optional("seal", "seal-python", "lattice")
        settings = seal.EncryptionParameters(seal.scheme_type.bfv)
        settings.set_poly_modulus_degree(DEGREE)
        settings.set_coeff_modulus(seal.CoeffModulus.Create(DEGREE, list(PRIME_SIZES)))
        settings.set_plain_modulus(seal.Modulus(1 << _PLAIN_BITS))
        self.context = seal.SEALContext(settings)
        self.evaluator = seal.Evaluator(self.context)
        key = self.context.key_context_data()
        self.key_primes = tuple(int(one.value()) for one in key.parms().coeff_modulus())
        self.primes, self.answer_primes = self.key_primes[:FRESH], self.key_primes[:ANSWERED]
        self._levels, level = {len(PRIME_SIZES): key.parms_id()}, self.context.first_context_data()
        for primes in range(FRESH, ANSWERED - 1, -1):
            self._levels[primes], level = level.parms_id(), level.next_context_data()
        self._version = seal.Plaintext("0").to_bytes()[:8]

    def pack(self, residues: Words, *, transformed: bool) -> "seal.Ciphertext":
        """Returns residues (2 to 16, primes, 8192) as a SEAL ciphertext, transformed or not."""
        held = self._seal.Ciphertext(self.context)
        held.load_bytes(self.context, self._serialised(residues, transformed=transformed))
        return held

    def unpack(self, held: "seal.Ciphertext") -> Words:
        """Returns the residues of a SEAL ciphertext, shape (polynomials, primes, 8192)."""
        text = held.to_string()
        shape = (held.size(), held.coeff_modulus_size(), DEGREE)
        return np.frombuffer(text, dtype="<u8", offset=_CIPHER_HEAD).reshape(shape)

    def transform(self, residues: Words) -> Words:
        """Returns the number-theoretic transforms of polynomials (any, primes, 8192)."""
        return self._in_portions(residues, self.evaluator.transform_to_ntt_inplace, False)

    def transform_back(self, residues: Words) -> Words:
        """Returns the polynomials of such transforms."""
        return self._in_portions(residues, self.evaluator.transform_from_ntt_inplace, True)

    def divided(self, residues: Words) -> Words:
        """Returns a ciphertext (2, primes, 8192) divided by all primes but an answer's."""
        held = self.pack(residues, transformed=False)
        for _ in range(FRESH - ANSWERED):
            self.evaluator.mod_switch_to_next_inplace(held)
        return self.unpack(held)

    def times(self, residues: Words, factor: "seal.Plaintext") -> Words:
        """Returns transforms (any, primes, 8192) times those of one factor."""

        def turn(held: "seal.Ciphertext") -> None:
            self.evaluator.multiply_plain_inplace(held, factor)

        return self._in_portions(residues, turn, True)

    def plaintext(self, transformed: Words) -> "seal.Plaintext":
        """Returns transforms (primes, 8192) as the factor of a product with a ciphertext."""
        held = self._seal.Plaintext()
        size = struct.pack("<4QQd", *self._levels[len(transformed)], transformed.size, 1.0)
        held.load_bytes(self.context, self._framed([size, *self._array(transformed)]))
        return held

    def factors(self, x: Integers) -> "list[seal.Plaintext]":
        """Returns integers (any, 8192) as factors of products with fresh ciphertexts."""
        return [self.plaintext(one) for one in self.transform(of_small(x, self.primes))]

    def keys(self) -> tuple["seal.SecretKey", "seal.PublicKey", Words]:
        """Returns fresh keys from the operating system, and the secret one's transforms."""
        made = self._seal.KeyGenerator(self.context)
        secret = made.secret_key()
        words = np.frombuffer(secret.to_string(), dtype="<u8", offset=_PLAIN_HEAD)
        return secret, made.create_public_key(), words.reshape(-1, DEGREE)[: len(self.primes)]

    def public_residues(self, key: "seal.PublicKey") -> Words:
        """Returns the transforms of a public key, shape (2, 4, 8192)."""
        words = np.frombuffer(key.to_string(), dtype="<u8", offset=_CIPHER_HEAD)
        return words.reshape(2, len(self.key_primes), DEGREE)

    def encryptor(self, public: Words) -> "seal.Encryptor":
        """Returns what encrypts under a public key of residues below their primes."""
        text = self._serialised(public, transformed=True)
        return self._seal.Encryptor(self.context, self.context.from_public_str(text))

    def decryptor(self, secret: "seal.SecretKey") -> "seal.Decryptor":
        """Returns what decrypts under the secret key."""
        return self._seal.Decryptor(self.context, secret)

    def thirty_two_fold(self, held: "seal.Ciphertext") -> "seal.Ciphertext":
        """Returns 32 times a ciphertext, whose plaintext modulo 2^59 is then its last 59 bits."""
        return self.evaluator.multiply_plain(held, self._seal.Plaintext("20"))

    def _in_portions(self, residues: Words, turn: Any, transformed: bool) -> Words:
        # SEAL refuses ciphertexts of one polynomial, and those of which all but the first are zero.
        filled = np.ones((PORTION + 1, *residues.shape[1:]), dtype=np.uint64)
        result = np.empty_like(residues)
        for start in range(0, len(residues), PORTION):
            into = result[start : start + PORTION]
            filled[: len(into)] = residues[start : start + PORTION]
            filled[len(into)] = 1
            held = self.pack(filled[: len(into) + 1], transformed=transformed)
            turn(held)
            into[:] = self.unpack(held)[: len(into)]
        return result

    def _serialised(self, residues: Words, *, transformed: bool) -> bytes:
        count, primes, degree = residues.shape
        fields = [*self._levels[primes], transformed, count, degree, primes, 1.0, 1]
        head = struct.pack("<4Q?QQQdQ", *fields)
        return self._framed([head, *self._array(residues)])

    def _array(self, words: Words) -> list[bytes]:
        head = self._head(8 + words.nbytes) + struct.pack("<Q", words.size)
        return [head, words.astype("<u8", copy=False).tobytes()]

    def _framed(self, parts: Sequence[bytes]) -> bytes:
        return b"".join([self._head(sum(map(len, parts))), *parts])

    def _head(self, size: int) -> bytes:
        version: bytes = self._version
        return version + struct.pack("<Q", _HEAD + size)


@lru_cache(maxsize=1)
def default_scheme() -> Scheme:
    """Returns the scheme, which is the same for everybody; it takes a tenth of a second once."""
    return Scheme()


def decrypted_words(plain: "seal.Plaintext") -> Words:
    """Returns all 8192 coefficients of a decrypted plaintext, as words below 2^59."""
    text = plain.to_bytes()
    words = np.frombuffer(text, dtype="<u8", offset=_PLAIN_HEAD)
    result = np.zeros(DEGREE, dtype=np.uint64)
    result[: words.size] = words
    return result


def check_residues(what: str, residues: Words, primes: tuple[int, ...]) -> None:
    """Raises CiphertextError unless residues (..., primes, any) are each below their prime."""
    if (residues >= np.array(primes, dtype=np.uint64)[:, None]).any():
        raise CiphertextError(
            f"{what} has a coefficient beyond its prime: it was altered, or made with other "
            "parameters. Ask the sender for one of this version."
        )
