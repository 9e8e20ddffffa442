"""Points of Curve25519 that stand for ids, and keys whose order of use does not matter.

A point is 32 bytes, its u-coordinate (RFC 7748), and in the subgroup of prime order.

Source:
    RFC 9380, sections 6.7.1 (Elligator 2) and 7 (cofactor), for points: a hash that is taken for a
    u-coordinate would tell of half of all ids that they lie on the twist. RFC 7748 for products.
"""

from __future__ import annotations

import hashlib
import secrets
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from extensions.errors import MessageError, optional

POINT = 32
"""Bytes of a point, of a key, and of what is hashed of an id."""
_P, _A = 2**255 - 19, 486662
_ORDER = 2**252 + 27742317777372353535851937790883648493
_LEAST_KEY = 2**254


def hashed(ids: bytes, tag: bytes) -> bytes:
    """Returns the points of ids of `POINT` bytes each, in turn, for a tag of this alignment."""
    numbers = (
        int.from_bytes(hashlib.sha512(tag + ids[at : at + POINT]).digest(), "little") % _P
        for at in range(0, len(ids), POINT)
    )
    return b"".join(map(point_of, numbers))


def point_of(element: int) -> bytes:
    """Returns the point that Elligator 2 gives to an element of the field, times the cofactor 8.

    Raises:
        MissingExtraError: gmpy2 is not installed.
    """
    number = _numbers()
    prime, element = number.mpz(_P), number.mpz(element)
    z = (1 + 2 * element * element) % prime
    x = -_A * (_A * _A + z * (z - _A * _A)) * z  # u^3 + A u^2 + u of u = -A / z, times z^4
    x = -_A if number.legendre(x % prime, prime) >= 0 else _A - _A * z
    for _ in range(3):
        squares, product = x * x + z * z, x * z % prime
        x = (squares - 2 * product) * (squares + 2 * product) % prime
        z = 4 * product * (squares + _A * product) % prime
    return _encoded(x * number.invert(z, prime) % prime)


def drawn_key() -> tuple[bytes, bytes]:
    """Returns a new key, and the key that takes it off again; both as X25519 has them.

    Half of all keys have one: the inverse modulo the group's order has to be a multiple of 8 in
    [2^254, 2^255) as well.
    """
    while True:
        key = _LEAST_KEY + 8 * secrets.randbelow(2**251)
        inverse = pow(key, -1, _ORDER)
        for undone in range(inverse, 2 * _LEAST_KEY, _ORDER):
            if undone % 8 == 0 and undone >= _LEAST_KEY:
                return _encoded(key), _encoded(undone)


def times_key(points: bytes, key: bytes) -> bytes:
    """Returns points under one more key, or under one less, in turn.

    Raises:
        MessageError: one of them is on the curve's twist, of small order, or not reduced.
        MissingExtraError: gmpy2 is not installed.
    """
    number, private = _numbers(), X25519PrivateKey.from_private_bytes(key)
    prime, found = number.mpz(_P), []
    for at in range(0, len(points), POINT):
        point = points[at : at + POINT]
        u = number.mpz(int.from_bytes(point, "little"))
        if u >= prime or number.legendre(u * (u * (u + _A) + 1) % prime, prime) != 1:
            raise MessageError("a point off the curve")
        try:
            found.append(private.exchange(X25519PublicKey.from_public_bytes(point)))
        except ValueError as error:  # the product is zero
            raise MessageError("a point of small order") from error
    return b"".join(found)


def _encoded(number: Any) -> bytes:
    return int(number).to_bytes(POINT, "little")


@cache
def _numbers() -> Any:
    return optional("gmpy2", "gmpy2", "align")
