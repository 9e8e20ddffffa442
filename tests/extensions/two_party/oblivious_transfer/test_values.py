"""Random, correlated and chosen words: the receiver gets what its bit says, and no more."""

import numpy as np
import pytest

from extensions.errors import TransferError
from extensions.two_party.oblivious_transfer import values
from extensions.two_party.oblivious_transfer.blocks import Hash

COUNT = 4096


@pytest.fixture
def transfers(session):
    receiver, sender = session
    choices = np.random.default_rng(5).integers(0, 2, COUNT, dtype=np.uint8)
    message, other = receiver.extend(choices)
    return Hash(bytes(16)), sender.extend(COUNT, message), sender.delta, other, choices


@pytest.fixture
def words():
    return np.frombuffer(np.random.default_rng(6).bytes(16 * COUNT), dtype="<u8").reshape(-1, 2)


def test_random_words(transfers):
    hashed, blocks, delta, other, choices = transfers
    both = np.stack(values.sender_words(hashed, blocks, delta), axis=-1)
    own = values.receiver_words(hashed, other)
    np.testing.assert_array_equal(own, both[np.arange(COUNT), choices])
    assert len(np.unique(both)) == 2 * COUNT


def test_correlated_words(transfers, words):
    hashed, blocks, delta, other, choices = transfers
    message, own = values.send_correlated(hashed, blocks, delta, words[:, 0])
    assert len(message) == 8 * COUNT
    received = values.receive_correlated(hashed, other, choices, message)
    np.testing.assert_array_equal(received - own, words[:, 0] * choices)


def test_chosen_words(transfers, words):
    hashed, blocks, delta, other, choices = transfers
    message = values.send_chosen(hashed, blocks, delta, words)
    assert len(message) == 16 * COUNT
    received = values.receive_chosen(hashed, other, choices, message)
    np.testing.assert_array_equal(received, words[np.arange(COUNT), choices])


def test_what_is_sent_is_masked_by_words_that_the_receiver_lacks(transfers):
    """Messages about zeros: uniform, but for the chosen half, which the receiver knows."""
    hashed, blocks, delta, other, choices = transfers
    pairs = np.zeros((COUNT, 2), dtype=np.uint64)
    sent = np.frombuffer(values.send_chosen(hashed, blocks, delta, pairs), "<u8").reshape(-1, 2)
    own = values.receiver_words(hashed, other)
    np.testing.assert_array_equal(sent[np.arange(COUNT), choices], own)
    hidden = sent[np.arange(COUNT), 1 - choices] ^ own
    message, _ = values.send_correlated(hashed, blocks, delta, pairs[:, 0])
    for uniform in (hidden, np.frombuffer(message, "<u8")):
        bits = np.unpackbits(uniform.copy().view(np.uint8)).reshape(-1, 64).sum(axis=0, dtype=int)
        assert (abs(bits - COUNT / 2) < 7 * np.sqrt(COUNT / 4)).all()


def test_messages_of_another_size_are_refused(transfers):
    hashed, _, _, other, choices = transfers
    with pytest.raises(TransferError, match="differences has 8 bytes instead of 32768"):
        values.receive_correlated(hashed, other, choices, bytes(8))
    with pytest.raises(TransferError, match="words has 8 bytes instead of 65536"):
        values.receive_chosen(hashed, other, choices, bytes(8))
