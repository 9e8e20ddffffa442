"""Any number of correlated transfers from 128 base ones: SoftSpoken (Roy, CRYPTO 2022).

The sender has a secret Delta of 128 bits. For each transfer, with the receiver's bit x, it gets a
block q and the receiver t = q xor x Delta. Seeds that the sender lacks one of, of sixteen, are
expanded by AES in counter mode; a receiver sends 32 bits a transfer, IKNP's (CRYPTO 2003) 128.

Guarantees:
    Semi-honest, computational security of 128 bits. The receiver's message is xored with a stream
    whose seed the sender lacks. Delta is uniform and hidden from the receiver, who gets nothing
    after the trees. A third party has no part in it: all others together with one of the two learn
    what that one does. A party that deviates may learn more: there is no consistency check.

Cost:
    A session: three messages of 32, 8,192 and 4,096 bytes. Then one message of 4 bytes a transfer,
    a multiple of 64 of them being made.
"""

import os
from collections.abc import Iterator

import numpy as np

from extensions.errors import ArgumentError, TransferError
from extensions.rules import Whole
from extensions.two_party.lattice.residues import Stream, Words
from extensions.two_party.oblivious_transfer.base import BaseChooser, BaseSender
from extensions.two_party.oblivious_transfer.blocks import (
    BITS,
    BLOCK,
    Bytes,
    check_size,
    transposed,
)
from extensions.two_party.oblivious_transfer.tree import DEPTH, LEAVES, TREES, grow, puncture

WORD = 64
_PORTION = 1 << 12
"""Words of a stream that are worked on at once: what fits in a processor's cache."""


class Receiver:
    """The party that has a bit for each transfer.

    `begin()` goes to the sender, whose `answer` goes to `trees`, whose result goes to its `finish`.
    """

    def __init__(self) -> None:
        self._base = BaseSender()
        self._streams: list[list[Stream]] = []

    def begin(self) -> bytes:
        """Returns the first message."""
        return self._base.message

    def trees(self, answer: bytes) -> bytes:
        """Returns the third message, and is ready to extend.

        Raises TransferError if the answer is malformed, or the session has begun before.
        """
        if self._streams:
            raise TransferError("this session's trees were sent already: begin another session.")
        roots = np.frombuffer(os.urandom(TREES * BLOCK), dtype=np.uint8).reshape(TREES, BLOCK)
        leaves, message = grow(roots, self._base.keys(answer))
        self._streams = [[Stream(leaf.tobytes()) for leaf in tree] for tree in leaves]
        return message

    def extend(self, choices: Bytes) -> tuple[bytes, Bytes]:
        """Returns the message of so many transfers, and the blocks t, shape (count, 16).

        Raises:
            ArgumentError: no choice, or one that is no bit: they are bytes, (count,), each 0 or 1.
            TransferError: the session has not begun.
        """
        if choices.ndim != 1 or not choices.size or choices.max() > 1:
            allowed = "bytes 0 or 1, one a transfer"
            raise ArgumentError("choices", choices.shape, allowed, code="shape")
        _check_begun(self._streams)
        words = _words(choices.size)
        packed = np.zeros(8 * words, dtype=np.uint8)
        bits = np.packbits(choices, bitorder="little")
        packed[: bits.size] = bits
        chosen = packed.view("<u8")
        message, blocks = np.empty((TREES, words), dtype="<u8"), []
        for start, stop in _portions(words):
            rows = np.empty((TREES, DEPTH, stop - start), dtype="<u8")
            for tree, streams in enumerate(self._streams):
                total = _folded(_drawn(streams, stop - start), rows[tree])
                message[tree, start:stop] = total ^ chosen[start:stop]
            blocks.append(transposed(rows.reshape(BITS, -1)))
        return message.tobytes(), np.concatenate(blocks)[: choices.size]


class Sender:
    """The party that has Delta.

    Raises TransferError if the receiver's first message is malformed.
    """

    def __init__(self, message: bytes) -> None:
        self._base = BaseChooser(message)
        self._streams: list[list[Stream]] = []
        self._missing = np.empty(0, dtype=np.uint8)

    def answer(self) -> bytes:
        """Returns the second message."""
        return self._base.answer

    def finish(self, message: bytes) -> None:
        """Takes the third message, and is ready to extend.

        Raises TransferError if it is malformed, or the session has begun before.
        """
        if self._streams:
            raise TransferError("this session has its trees already: begin another session.")
        self._missing, leaves = puncture(self._base.choices, self._base.keys, message)
        ordered = np.arange(LEAVES) ^ self._missing[:, None]
        held = leaves[np.arange(TREES)[:, None], ordered]
        self._streams = [[Stream(leaf.tobytes()) for leaf in tree[1:]] for tree in held]

    @property
    def delta(self) -> Bytes:
        """The 16 secret bytes by which a receiver's blocks differ where its bit is 1."""
        bits = self._missing[:, None] >> np.arange(DEPTH, dtype=np.uint8) & 1
        return np.packbits(bits.reshape(-1), bitorder="little")

    def extend(self, count: int, message: bytes) -> Bytes:
        """Returns the blocks q of so many transfers, shape (count, 16).

        Raises TransferError if the message has another size, or the session has not begun.
        """
        Whole(1).check("count", count)
        _check_begun(self._streams)
        words = _words(count)
        check_size("receiver's message", message, TREES * words * 8)
        sent = np.frombuffer(message, dtype="<u8").reshape(TREES, words)
        ones = self._missing[:, None] >> np.arange(DEPTH, dtype=np.uint8) & 1
        masks = -ones.astype(np.int64).view(np.uint64)
        blocks = []
        for start, stop in _portions(words):
            rows = np.empty((TREES, DEPTH, stop - start), dtype="<u8")
            for tree, streams in enumerate(self._streams):
                _folded([np.zeros(stop - start, "<u8"), *_drawn(streams, stop - start)], rows[tree])
            rows ^= masks[..., None] & sent[:, None, start:stop]
            blocks.append(transposed(rows.reshape(BITS, -1)))
        return np.concatenate(blocks)[:count]


def message_bytes(count: int) -> int:
    """Returns what a receiver sends for so many transfers."""
    return TREES * _words(count) * 8


def _drawn(streams: list[Stream], words: int) -> list[Words]:
    return [stream.words(words) for stream in streams]


def _folded(leaves: list[Words], rows: Words) -> Words:
    """Returns the xor of 16 streams; row j becomes that of those whose number has bit j."""
    for level in range(DEPTH):
        rows[level] = leaves[1]
        for leaf in leaves[3::2]:
            rows[level] ^= leaf
        leaves = [one ^ other for one, other in zip(leaves[::2], leaves[1::2], strict=True)]
    return leaves[0]


def _portions(words: int) -> Iterator[tuple[int, int]]:
    for start in range(0, words, _PORTION):
        yield start, min(start + _PORTION, words)


def _words(count: int) -> int:
    return -(-count // WORD)


def _check_begun(streams: list[list[Stream]]) -> None:
    if not streams:
        raise TransferError("the session has not begun: exchange its three messages first.")
