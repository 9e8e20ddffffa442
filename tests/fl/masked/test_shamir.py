"""Shamir's sharing: any t shares give the secret, fewer fit every secret equally well."""

import os

import gmpy2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.errors import ArgumentError
from fl.masked.shamir import PRIME, SHARE_BYTES, reconstruct, share
from tests.helpers.strategies import ALARM, PROPERTY, histogram_p_value

SECRETS = st.one_of(
    st.binary(min_size=32, max_size=32),
    st.sampled_from([bytes(32), b"\xff" * 32, bytes(31) + b"\x01"]),
)


def test_the_field_is_the_smallest_that_holds_32_bytes():
    assert gmpy2.next_prime(2**256) == PRIME
    assert PRIME.bit_length() <= 8 * SHARE_BYTES


@PROPERTY
@given(st.data(), SECRETS)
def test_any_threshold_of_shares_gives_the_secret_back(data, secret):
    points = data.draw(st.lists(st.integers(1, PRIME - 1), min_size=1, max_size=9, unique=True))
    threshold = data.draw(st.integers(1, len(points)))
    shares = share(secret, threshold, points)
    assert list(shares) == points
    chosen = data.draw(st.permutations(points))[:threshold]
    assert reconstruct({x: shares[x] for x in chosen}) == secret


@PROPERTY
@given(SECRETS, SECRETS, st.integers(2, 7))
def test_fewer_shares_fit_every_other_secret(secret, other, threshold):
    """For any secret there is one value at a further point that makes it the secret."""
    shares = share(secret, threshold, range(1, threshold + 1))
    known = {x: shares[x] for x in range(1, threshold)}
    at_zero = [reconstruct({**known, threshold: v.to_bytes(SHARE_BYTES)}) for v in (0, 1)]
    base, step = (int.from_bytes(found or b"") for found in at_zero)
    value = (int.from_bytes(other) - base) * pow(step - base, -1, PRIME) % PRIME
    assert reconstruct({**known, threshold: value.to_bytes(SHARE_BYTES)}) == other


def test_a_share_is_uniform_and_new_each_time_whatever_the_secret():
    """A byte of a share is uniform up to 2^-239: exact binomial tails, false alarm 1e-8 each."""
    for secret in (bytes(32), b"\xff" * 32):
        counts = [0] * 256
        for _ in range(1500):
            counts[share(secret, 2, [1, 2])[2][-1]] += 1
        assert histogram_p_value(counts, [1 / 256] * 256) > ALARM
    constant = [share(bytes(32), 1, [1, 2])[2][-1] for _ in range(300)]
    assert histogram_p_value([constant.count(v) for v in range(256)], [1 / 256] * 256) < ALARM


def test_a_wrong_share_gives_another_secret():
    secret = os.urandom(32)
    shares = share(secret, 3, [1, 2, 3])
    wrong = (int.from_bytes(shares[2]) ^ 1).to_bytes(SHARE_BYTES)
    assert reconstruct({**shares, 2: wrong}) != secret
    beyond = {1: (2**256 + 5).to_bytes(SHARE_BYTES)}
    assert reconstruct(beyond) is None


@pytest.mark.parametrize(
    ("secret", "threshold", "points"),
    [
        (bytes(31), 2, [1, 2]),
        (bytes(32), 3, [1, 2]),
        (bytes(32), 0, [1, 2]),
        (bytes(32), 2, [1, 1]),
        (bytes(32), 2, [0, 1]),
        (bytes(32), 2, [1, PRIME + 1]),
    ],
)
def test_what_cannot_be_shared_is_refused(secret, threshold, points):
    with pytest.raises(ArgumentError):
        share(secret, threshold, points)


def test_nothing_is_reconstructed_from_nothing():
    for shares in ({}, {0: bytes(SHARE_BYTES)}):
        with pytest.raises(ArgumentError):
            reconstruct(shares)
