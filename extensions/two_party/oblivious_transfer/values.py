"""Words modulo 2^64 by correlated transfers: random, correlated and chosen ones.

Blocks become words by a hash (`Hash`), which both sides have a public key of; each block is for
one value. Asharov et al. (CCS 2013) have the three kinds.
"""

import numpy as np

from extensions.two_party.lattice.residues import Words
from extensions.two_party.oblivious_transfer.blocks import Bytes, Hash, check_size


def sender_words(hashed: Hash, blocks: Bytes, delta: Bytes) -> tuple[Words, Words]:
    """Returns the two uniform words of each transfer, of which the receiver has one; no message."""
    return _word(hashed(blocks)), _word(hashed(blocks ^ delta))


def receiver_words(hashed: Hash, blocks: Bytes) -> Words:
    """Returns the word of each transfer that the receiver's bit names."""
    return _word(hashed(blocks))


def send_correlated(
    hashed: Hash, blocks: Bytes, delta: Bytes, differences: Words
) -> tuple[bytes, Words]:
    """Returns a message of 8 bytes a transfer and uniform r; the receiver gets r + x difference."""
    zero, one = sender_words(hashed, blocks, delta)
    return (zero + differences - one).astype("<u8").tobytes(), zero


def receive_correlated(hashed: Hash, blocks: Bytes, choices: Bytes, message: bytes) -> Words:
    """Returns r + x difference of each transfer; TransferError if the message has another size."""
    check_size("sender's differences", message, 8 * len(blocks))
    sent = np.frombuffer(message, dtype="<u8")
    received: Words = receiver_words(hashed, blocks) + sent * choices.astype(np.uint64)
    return received


def send_chosen(hashed: Hash, blocks: Bytes, delta: Bytes, pairs: Words) -> bytes:
    """Returns a message of 16 bytes a transfer, for words (transfers, 2)."""
    masks = np.stack(sender_words(hashed, blocks, delta), axis=-1)
    return (pairs ^ masks).astype("<u8").tobytes()


def receive_chosen(hashed: Hash, blocks: Bytes, choices: Bytes, message: bytes) -> Words:
    """Returns the word of each pair that the receiver's bit names.

    Raises TransferError if the message has another size.
    """
    check_size("sender's words", message, 16 * len(blocks))
    sent = np.frombuffer(message, dtype="<u8").reshape(-1, 2)
    return sent[np.arange(len(blocks)), choices] ^ receiver_words(hashed, blocks)


def _word(blocks: Bytes) -> Words:
    words: Words = blocks.view("<u8")[:, 0]
    return words
