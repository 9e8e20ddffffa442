"""Masks are AES-256-CTR: published vectors, zero sharings that cancel, nothing to seed from torch.

The statistics have a false-alarm rate of at most 1e-9 each.
"""

import math

import pytest
import torch

from crypten_ext.keystream import KEY_BYTES, Keystream, derive_key
from crypten_ext.launch import Parties
from extensions.errors import ArgumentError

ALARM = 1e-9


def test_first_blocks_are_those_of_the_published_vectors():
    """McGrew and Viega, GCM specification, test case 13: E(0, 0) is H, E(0, 1) is the tag."""
    words = Keystream(bytes(KEY_BYTES)).words((4,))
    expected = "dc95c078a2408989ad48a21492842087" + "530f8afbc74536b9a963b4f1c4cb738b"
    assert words.numpy().tobytes().hex() == expected


def test_a_stream_does_not_depend_on_how_it_is_cut():
    key = bytes(range(KEY_BYTES))
    whole, parts = Keystream(key), Keystream(key)
    pieces = [parts.words(shape).reshape(-1) for shape in ((3,), (0,), (2, 5), (200_000,))]
    assert torch.equal(whole.words((200_013,)), torch.cat(pieces))


def test_keys_differ_by_purpose_and_must_be_long_enough():
    assert derive_key(b"secret", "a") != derive_key(b"secret", "b")
    with pytest.raises(ArgumentError, match="key = '16 bytes': must be 32 bytes"):
        Keystream(bytes(16))


def test_fresh_streams_cannot_be_seeded():
    drawn = []
    for _ in range(2):
        torch.manual_seed(1)
        drawn.append(Keystream.fresh().words((4,)))
    assert not torch.equal(*drawn)


def test_every_bit_is_fair():
    words = 100_000
    drawn = Keystream.fresh().words((words,))
    slack = math.sqrt(words * math.log(2 * 64 / ALARM) / 2)  # Hoeffding, union over 64 bits
    for bit in range(64):
        assert abs(int(((drawn >> bit) & 1).sum()) - words / 2) < slack


@pytest.mark.parametrize("parties", [2, 3])
def test_masks_of_running_parties(parties):
    with Parties(parties) as pool:
        before = pool.run("tests.party_tasks_masks:draw", enable=False)
        assert all(type_name == "Generator" for type_name, *_ in before)
        first = pool.run("tests.party_tasks_masks:draw", enable=True)
        second = pool.run("tests.party_tasks_masks:draw", enable=True)
    for outcome in (first, second):
        assert all(type_name == "Keystream" for type_name, *_ in outcome)
        additive = sum(torch.tensor(share) for _, share, _, _ in outcome)
        binary = torch.zeros(8, dtype=torch.int64)
        for _, _, share, _ in outcome:
            binary ^= torch.tensor(share)
        assert not additive.any()
        assert not binary.any()
        own = [tuple(words) for *_, words in outcome]
        assert len(set(own)) == parties
    assert all(a != b for a, b in zip(first, second, strict=True))
