"""Correlated transfers hold bit by bit, hide both sides' secrets, and refuse what is none."""

from contextlib import suppress

import numpy as np
import pytest

from extensions.errors import TransferError
from extensions.two_party.oblivious_transfer.blocks import Hash, transposed
from extensions.two_party.oblivious_transfer.extension import Receiver, Sender, message_bytes
from extensions.two_party.oblivious_transfer.tree import LEAVES, TREES, grow, puncture
from tests.helpers.refused import refused

MANY = 1 << 16


@pytest.fixture
def bits():
    return np.random.default_rng(24).integers(0, 2, MANY, dtype=np.uint8)


def ones(blocks):
    """Returns how many of the blocks have each bit."""
    return np.unpackbits(blocks, axis=1).sum(axis=0, dtype=int)


def fair(counts, draws):
    """Says whether all of up to 2,000 counts are within seven deviations: 10^-8 by chance."""
    return (abs(counts - draws / 2) < 7 * np.sqrt(draws / 4)).all()


def test_the_hash_is_that_of_the_standards_vector():
    """FIPS 197, appendix C.1, and the input added."""
    block = bytes.fromhex("00112233445566778899aabbccddeeff")
    hashed = Hash(bytes(range(16)))(np.frombuffer(block, dtype=np.uint8)[None])
    cipher = bytes.fromhex("69c4e0d86a7b0430d8cdb78070b4c55a")
    assert hashed.tobytes() == bytes(x ^ y for x, y in zip(block, cipher, strict=True))


@pytest.mark.parametrize("columns", [64, 64 * 37, 64 * 300])
def test_bit_matrices_are_transposed(columns):
    rows = np.random.default_rng(columns).integers(0, 256, (128, columns // 8), dtype=np.uint8)
    bits = np.unpackbits(rows, axis=1, bitorder="little")
    expected = np.packbits(bits.T, axis=1, bitorder="little")
    np.testing.assert_array_equal(transposed(rows.view("<u8")), expected)


def test_a_tree_gives_all_leaves_but_one():
    draws = np.random.default_rng(3)
    keys = draws.integers(0, 256, (128, 2, 16), dtype=np.uint8)
    roots = draws.integers(0, 256, (TREES, 16), dtype=np.uint8)
    choices = draws.integers(0, 2, 128, dtype=np.uint8)
    leaves, message = grow(roots, keys)
    missing, held = puncture(choices, keys[np.arange(128), choices], message)
    for tree in range(TREES):
        others = np.arange(LEAVES) != missing[tree]
        np.testing.assert_array_equal(held[tree, others], leaves[tree, others])
        assert not held[tree, missing[tree]].any()
    assert len({leaf.tobytes() for leaf in leaves.reshape(-1, 16)}) == TREES * LEAVES
    assert len(set(missing.tolist())) > 4


@pytest.mark.parametrize("count", [1, 63, 64, 65, 5000, 1024 * 64 + 1])
def test_blocks_differ_by_delta_where_the_bit_is_one(session, count):
    receiver, sender = session
    choices = np.random.default_rng(count).integers(0, 2, count, dtype=np.uint8)
    message, other = receiver.extend(choices)
    own = sender.extend(count, message)
    assert len(message) == message_bytes(count) == 256 * -(-count // 64)
    np.testing.assert_array_equal(other, own ^ (sender.delta * choices[:, None]))


def test_four_bytes_a_transfer():
    assert message_bytes(1 << 20) == 4 << 20


def test_blocks_never_come_again_and_are_uniform(session, bits):
    receiver, sender = session
    blocks = np.concatenate([sender.extend(MANY, receiver.extend(bits)[0]) for _ in range(2)])
    assert len(np.unique(blocks.view("<u8")[:, 0])) > 2 * MANY - 3
    assert fair(ones(blocks), 2 * MANY)


def test_the_message_hides_the_choices(session, bits):
    """It is uniform given the choices, and correlates with none of the other trees' parts."""
    receiver, sender = session
    for choices in (bits * 0, bits | 1, bits):
        message, _ = receiver.extend(choices)
        sender.extend(MANY, message)
        rows = np.frombuffer(message, dtype=np.uint8).reshape(TREES, -1)
        chosen = np.packbits(choices, bitorder="little")
        assert fair(ones_of_rows(rows), MANY)
        assert fair(ones_of_rows(rows ^ chosen), MANY)
        assert fair(ones_of_rows(rows[1:] ^ rows[:-1]), MANY)


def ones_of_rows(rows):
    return np.unpackbits(rows, axis=1).sum(axis=1, dtype=int)


def test_delta_is_uniform_and_new_in_each_session(new_session):
    """Ones of 8 x 128 bits, six standard deviations; no two sessions have the same."""
    deltas = [new_session()[1].delta.tobytes() for _ in range(8)]
    assert len(set(deltas)) == 8
    count = sum(int.from_bytes(delta).bit_count() for delta in deltas)
    assert abs(count - 512) < 6 * np.sqrt(256)


def test_seeds_that_the_sender_lacks_are_not_among_its_own(session):
    """Of each tree it has 15 streams: with the sixteenth it could read the choices."""
    receiver, sender = session
    assert [len(streams) for streams in sender._streams] == [LEAVES - 1] * TREES
    assert [len(streams) for streams in receiver._streams] == [LEAVES] * TREES


@pytest.mark.parametrize("bad", [[], [2], [0, 255], [[0, 1]]])
def test_choices_that_are_no_bits_are_refused(session, bad):
    with refused("choices", "shape"):
        session[0].extend(np.array(bad, dtype=np.uint8))


def test_messages_out_of_step_are_refused(session, new_session):
    receiver, sender = session
    with refused("count", "range", value=0):
        sender.extend(0, b"")
    for bad in (b"", bytes(255), bytes(512)):
        with pytest.raises(TransferError, match=f"has {len(bad)} bytes instead of 256"):
            sender.extend(64, bad)
    with pytest.raises(TransferError, match="begin another session"):
        receiver.trees(sender.answer())
    with pytest.raises(TransferError, match="begin another session"):
        sender.finish(bytes(4096))
    early = Receiver()
    with pytest.raises(TransferError, match="has not begun"):
        early.extend(np.ones(1, dtype=np.uint8))
    other = Sender(early.begin())
    with pytest.raises(TransferError, match="has not begun"):
        other.extend(1, bytes(256))
    with pytest.raises(TransferError, match="the trees has 4095 bytes instead of 4096"):
        other.finish(bytes(4095))


def test_hostile_bytes_end_in_our_errors_or_in_other_blocks(new_session):
    """2,000 random or altered messages to every handler: nothing else is raised."""
    draws = np.random.default_rng(11)
    _, sender = new_session()
    fresh = Receiver()
    for _ in range(500):
        garbage = draws.bytes(int(draws.choice([0, 1, 32, 256, 4096, 8192])))
        for read in (
            fresh.trees if len(garbage) != 8192 else fresh._base.keys,
            Sender,
            lambda message: sender.extend(64, message),
            lambda message: puncture(sender._base.choices, sender._base.keys, message),
        ):
            if read is Sender and len(garbage) == 32 and draws.random() < 0.98:
                continue  # a key that may be one: 128 multiplications
            with suppress(TransferError):
                read(garbage)
