"""Shamir's secret sharing over a prime field, exact, of secrets of 32 bytes.

Source:
    Shamir, "How to share a secret", CACM 1979.
"""

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod

from extensions.errors import ArgumentError
from extensions.rules import Whole

PRIME = 2**256 + 297
"""The smallest prime above 2^256: every 32 bytes are an element of the field."""

SECRET_BYTES = 32
SHARE_BYTES = 33


def share(secret: bytes, threshold: int, points: Sequence[int]) -> dict[int, bytes]:
    """Returns one share for each point; any `threshold` of them give the secret of 32 bytes back.

    Points are distinct and in 1..PRIME - 1.

    Guarantees:
        Fewer shares are uniform and independent of the secret, whatever it is: the other
        coefficients of the polynomial come from the operating system's generator.
    """
    if len(secret) != SECRET_BYTES:
        rule = f"{SECRET_BYTES} bytes"
        raise ArgumentError("length of the secret", len(secret), rule, code="shape")
    Whole(1, len(points)).check("threshold", threshold)
    _check_points(points)
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    shares = {}
    for x in points:
        value = 0
        for coefficient in coefficients:
            value = (value + coefficient) * x % PRIME
        shares[x] = ((value + int.from_bytes(secret)) % PRIME).to_bytes(SHARE_BYTES)
    return shares


def reconstruct(shares: Mapping[int, bytes]) -> bytes | None:
    """Returns the secret of as many shares as the threshold, by point; None if they belong to none.

    A wrong share changes the secret and is not noticed here: compare the secret with a commitment.
    """
    points = tuple(shares)
    if not points:
        raise ArgumentError("shares", {}, "", code="missing")
    _check_points(points)
    values = (int.from_bytes(data) for data in shares.values())
    weighted = (w * value for w, value in zip(_weights(points), values, strict=True))
    secret = sum(weighted) % PRIME
    return secret.to_bytes(SECRET_BYTES) if secret.bit_length() <= 8 * SECRET_BYTES else None


def _check_points(points: Sequence[int]) -> None:
    if len(set(points)) != len(points) or not all(1 <= x < PRIME for x in points):
        rule = "distinct and in 1..PRIME - 1"
        raise ArgumentError("points", list(points), rule, code="range")


@lru_cache(maxsize=64)
def _weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """Returns Lagrange's weights of the values at the points for the value at 0."""
    weights = []
    for x in points:
        others = [y for y in points if y != x]
        down = prod(y - x for y in others) % PRIME
        weights.append(prod(others) * pow(down, -1, PRIME) % PRIME)
    return tuple(weights)
