"""Bytes from elsewhere: whatever is not a message of this product is refused by name."""

import numpy as np
import pytest

from extensions.errors import CiphertextError
from extensions.two_party.lattice import wire
from extensions.two_party.lattice.plan import matrices
from extensions.two_party.lattice.product import KeyOwner, Multiplier
from tests.extensions.two_party.lattice.test_residues import PRIMES

PLAN = matrices(1, 3, 2, weight_bits=8)
FUZZED = 300
"""Of each message."""


@pytest.fixture(scope="module")
def messages(key_owner, multiplier):
    """Returns by kind a message and what reads it."""
    request = key_owner.encrypt(PLAN, np.ones(PLAN.input_shape, np.int64))
    weights = np.ones(PLAN.weight_shape, np.int64)
    answer, _ = multiplier.multiply(PLAN, weights, request)
    return {
        "public key": (key_owner.public_key(), Multiplier),
        "request": (request, lambda message: multiplier.multiply(PLAN, weights, message)),
        "answer": (answer, lambda message: key_owner.decrypt(PLAN, message)),
    }


@pytest.mark.parametrize("kind", ["public key", "request", "answer"])
def test_other_lengths_and_heads_are_refused(messages, kind):
    good, read = messages[kind]
    read(good)
    for bad in (b"", good[:-1], good + b"\0", good[:32]):
        with pytest.raises(CiphertextError, match=rf"the {kind} has {len(bad)} bytes instead of"):
            read(bad)
    with pytest.raises(CiphertextError, match="for another product or other parameters"):
        read(bytes([good[0] ^ 1]) + good[1:])


@pytest.mark.parametrize("kind", ["public key", "request", "answer"])
def test_coefficients_beyond_their_primes_are_refused(messages, kind):
    good, read = messages[kind]
    for start in (64, len(good) // 2 // 8 * 8, len(good) - 32):
        with pytest.raises(CiphertextError, match=f"the {kind} has a coefficient"):
            read(good[:start] + b"\xff" * 32 + good[start + 32 :])


@pytest.mark.parametrize("kind", ["request", "answer"])
def test_hostile_messages_are_refused_or_computed_with_and_do_nothing_else(messages, kind):
    """Bits flipped, stretches overwritten and cut: no error but ours comes out."""
    good, read = messages[kind]
    draws = np.random.default_rng(7)
    refused = 0
    for _ in range(FUZZED // 10):
        bad = bytearray(good)
        start, length = int(draws.integers(len(bad))), int(draws.integers(1, 200))
        bad[start : start + length] = draws.bytes(length if draws.random() < 0.9 else 3)
        try:
            read(bytes(bad))
        except CiphertextError:
            refused += 1
    assert refused > 0


def test_an_answer_without_a_random_half_is_refused(messages):
    good, read = messages["answer"]
    with pytest.raises(CiphertextError, match="its random half is zero"):
        read(good[:32] + bytes(len(good) - 32))


def test_messages_of_another_product_or_kind_are_refused(key_owner, multiplier, messages):
    other = matrices(1, 3, 2, weight_bits=9)
    assert other.cut.request_bytes(other) == PLAN.cut.request_bytes(PLAN)
    with pytest.raises(CiphertextError, match="another product"):
        multiplier.multiply(other, np.ones(other.weight_shape, np.int64), messages["request"][0])
    with pytest.raises(CiphertextError, match="another product"):
        key_owner.decrypt(other, messages["answer"][0])


def test_answers_to_another_key_say_nothing(messages):
    answer, _ = messages["answer"]
    assert not (KeyOwner().decrypt(PLAN, answer) == KeyOwner().decrypt(PLAN, answer)).any()


def test_residues_come_back_from_their_bytes():
    """Of 60, 40 and 17 bits, in 7.5, 5 and 2.5 bytes; an odd number of them too."""
    primes = (PRIMES[0], PRIMES[3], 114689)
    tops = np.array(primes, dtype=np.uint64)[:, None] - np.uint64(1)
    for count, expected in ((4, 60), (3, 23 + 15 + 8)):
        row = np.array([1 << 16, 0, 1, 1 << 16], dtype=np.uint64)[:count]
        residues = np.concatenate([tops, np.broadcast_to(row[1:], (3, count - 1))], axis=1)
        packed = wire.pack(residues, primes)
        assert len(packed) == wire.size(count, primes) == expected
        read = wire.unpack("answer", memoryview(packed), (3, count), primes)
        np.testing.assert_array_equal(read, residues)
