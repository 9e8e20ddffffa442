"""Masks are AES-256-CTR: published vectors, zero sharings that cancel, nothing to seed from torch.

The statistics have a false-alarm rate of at most 1e-9 each.
"""

import math

import pytest
import torch

from crypten_ext.masks.key_agreement import KeyPair
from crypten_ext.masks.keystream import KEY_BYTES, Keystream, derive_key
from crypten_ext.processes.launch import Parties
from tests.helpers.refused import refused

ALARM = 1e-9


def test_first_blocks_are_those_of_the_published_vectors():
    """McGrew and Viega, GCM specification, test case 13: E(0, 0) is H, E(0, 1) is the tag."""
    words = Keystream(bytes(KEY_BYTES)).words((4,))
    expected = "dc95c078a2408989ad48a21492842087" + "530f8afbc74536b9a963b4f1c4cb738b"
    assert words.numpy().tobytes().hex() == expected


def test_a_stream_is_that_of_the_published_counter_mode():
    """NIST SP 800-38A, F.5.5 (CTR-AES256.Encrypt): the four output blocks."""
    key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
    blocks = "0bdf7df1591716335e9a8b15c860c502" + "5a6e699d536119065433863c8f657b94"
    blocks += "1bc12c9c01610d5d0d8bd6a3378eca62" + "2956e1c8693536b1bee99c73a31576b6"
    counter = int("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", 16)
    words = Keystream(bytes.fromhex(key), counter).words((2, 4))
    assert words.numpy().tobytes().hex() == blocks


def test_keys_are_derived_as_published():
    """RFC 5869, test case 3 (HKDF-SHA-256 without salt and info): the first 32 bytes."""
    expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
    assert derive_key(b"\x0b" * 22, "").hex() == expected


def test_key_pairs_agree_as_published():
    """RFC 7748, section 6.1: Bob's keys, Alice's public key, and their shared secret."""
    bob = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
    bob_public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    alice_public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    secret = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    pair = KeyPair(bytes.fromhex(bob))
    assert bytes(pair.public.tolist()).hex() == bob_public
    theirs = torch.tensor(list(bytes.fromhex(alice_public)))
    assert pair.agree(theirs, "use") == derive_key(bytes.fromhex(secret), "use")


def test_two_32_bit_equal_seeds_no_longer_give_equal_streams():
    """CrypTen's generators take 32 bits of a seed; ours differ in whichever bit a key does."""
    seeded = [torch.Generator().manual_seed(seed) for seed in (5, 5 + (7 << 32))]
    old = [torch.randint(0, 2**62, (8,), generator=generator) for generator in seeded]
    assert torch.equal(*old)
    keys = [((5 + (7 << shift)) % 2**256).to_bytes(KEY_BYTES, "little") for shift in (32, 224, 254)]
    keys.append((5).to_bytes(KEY_BYTES, "little"))
    assert {key[:4] for key in keys} == {keys[-1][:4]}
    words = [word for key in keys for word in Keystream(key).words((8,)).tolist()]
    assert len(set(words)) == len(keys) * 8


def test_a_stream_does_not_depend_on_how_it_is_cut():
    key = bytes(range(KEY_BYTES))
    whole, parts = Keystream(key), Keystream(key)
    pieces = [parts.words(shape).reshape(-1) for shape in ((3,), (0,), (2, 5), (200_000,))]
    assert torch.equal(whole.words((200_013,)), torch.cat(pieces))


def test_keys_differ_by_purpose_and_must_be_long_enough():
    assert derive_key(b"secret", "a") != derive_key(b"secret", "b")
    with refused("key", "shape", "16 bytes"):
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


@pytest.mark.parametrize("parties", [2, pytest.param(3, marks=pytest.mark.long)])
def test_masks_of_running_parties(parties):
    """Of two parties each is both neighbours of the other: masks of one key would cancel."""
    with Parties(parties) as pool:
        before = pool.run("tests.helpers.party_tasks.masks:draw", enable=False)
        assert all(type_name == "Generator" for type_name, *_ in before)
        first = pool.run("tests.helpers.party_tasks.masks:draw", enable=True)
        second = pool.run("tests.helpers.party_tasks.masks:draw", enable=True)
    for outcome in (first, second):
        assert all(type_name == "KeyedGenerator" for type_name, *_ in outcome)
        additive = sum(torch.tensor(share) for _, share, _, _ in outcome)
        binary = torch.zeros(8, dtype=torch.int64)
        for _, _, share, _ in outcome:
            binary ^= torch.tensor(share)
        assert not additive.any()
        assert not binary.any()
        own = [tuple(words) for *_, words in outcome]
        assert len(set(own)) == parties
    for one, other in zip(first, second, strict=True):
        words = {word for _, *draws in (one, other) for drawn in draws for word in drawn}
        assert len(words | {0}) == 1 + 2 * 3 * 8, "a share of zero hides nothing if it is zero"


def test_a_pairwise_mask_is_known_to_all_others_together_and_to_no_fewer(pools):
    """Of four parties any two lack the words that the third shares with the one they attack."""
    parties = pools.run(4, "tests.helpers.party_tasks.masks:pairwise")
    for place in (0, 2):
        assert not sum(torch.tensor(party[place]) for party in parties).any()
    for rank, (mask, known, _) in enumerate(parties):
        others = [other for other in range(4) if other != rank]
        signs = [1 if rank < other else -1 for other in others]
        words = [sign * torch.tensor(own) for sign, own in zip(signs, known, strict=True)]
        assert torch.equal(sum(words), torch.tensor(mask))
        for left_out in range(3):
            rest = torch.tensor(mask) - sum(words[:left_out] + words[left_out + 1 :])
            shared = parties[others[left_out]][1]
            assert torch.equal(rest, words[left_out])
            assert sum(torch.equal(abs(rest), abs(torch.tensor(each))) for each in shared) == 1
    everything = {tuple(each) for _, known, _ in parties for each in known}
    assert len(everything) == 6, "one key for each pair"


def test_seeds_of_a_script_are_taken_in_debug_mode_as_crypten_takes_them(pools):
    """Each seed has another value at each party; shares of zero still cancel, and repeat."""
    first, second = pools.run(2, "tests.helpers.party_tasks.masks:seeded")
    for own, other in ((first, second), (second, first)):
        assert own["before"]["next"] == other["before"]["prev"]
        assert len(set(own["before"].values())) == 4
        assert own["after"] == {"next": own["seeds"][0], "prev": other["seeds"][0]} | {
            "local": own["seeds"][1],
            "global": 3,
        }
        assert own["drawn by torch"][0] != own["drawn by torch"][1]
        assert "only allowed in debug mode" in own["otherwise"]
        assert own["shares"][0] == own["shares"][1]
        assert own["shares"][0] != own["shares"][2]
    for one, other in zip(first["shares"], second["shares"], strict=True):
        assert any(one)
        assert not any((torch.tensor(one) + torch.tensor(other)).tolist())
