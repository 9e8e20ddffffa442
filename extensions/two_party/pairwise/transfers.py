"""Bits of one party times words of another, for every two parties at once: correlated transfers.

With a bit x of the one that chooses and a difference d of the one that sends, they get shares of
x d. As many differences as wanted belong to one transfer, of which its bit costs most: 4 bytes
(Asharov et al., CCS 2013; `extensions.two_party.oblivious_transfer`).
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from extensions.ring.fixed_point import RING_BITS, Integers
from extensions.two_party.oblivious_transfer.blocks import Bytes, check_size
from extensions.two_party.oblivious_transfer.extension import message_bytes
from extensions.two_party.pairwise.peers import Pair, Peers, told_by
from extensions.two_party.pairwise.rounds import Making, Round

WORD_BYTES = 8
MOST = 1 << 21
"""Transfers that are made at once: 32 MB of blocks for each other party."""
Pairs = Callable[[int, int], bool]
"""Whether the first rank chooses and the second sends."""


def all_pairs(chooser: int, sender: int) -> bool:
    """Every two parties, both ways."""
    return True


def downwards(chooser: int, sender: int) -> bool:
    """Every two parties, once."""
    return sender < chooser


class Form(Protocol):
    """How differences are shared: bitwise or additively."""

    count: int
    """Transfers."""
    unit: int
    """Transfers that stay together, for which differences have `width` places in each row."""
    width: int
    size: int
    """Bytes of a sender's message."""

    def part(self, units: int) -> "Form":
        """Returns the form of so many units."""

    def none(self) -> Integers:
        """Returns shares of zero."""

    def pads(self, pair: Pair, chooser: int, blocks: Bytes) -> Integers:
        """Returns what hides the differences of each transfer, from its blocks (count, 16)."""

    def hidden(
        self, zero: Integers, one: Integers, differences: Integers
    ) -> tuple[bytes, Integers]:
        """Returns a sender's message and its shares, given the pads of both bits."""

    def found(self, pads: Integers, choices: Bytes, message: bytes) -> Integers:
        """Returns the shares of the one who chose."""

    def add(self, total: Integers, shares: Integers) -> None:
        """Adds shares to shares."""


class Bitwise:
    """Shares by XOR, of differences of a bit each; 64 transfers a word.

    Differences and shares have the shape (columns, words).
    """

    def __init__(self, columns: int, words: int) -> None:
        self._shape = columns, words
        self.unit, self.width = RING_BITS, 1
        self.count, self.size = RING_BITS * words, WORD_BYTES * columns * words

    def part(self, units: int) -> "Bitwise":
        """Returns the form of so many words."""
        return Bitwise(self._shape[0], units)

    def none(self) -> Integers:
        """Returns shares of zero."""
        return np.zeros(self._shape, dtype=np.int64)

    def pads(self, pair: Pair, chooser: int, blocks: Bytes) -> Integers:
        """Returns a bit for each transfer and difference."""
        columns, words = self._shape
        drawn = pair.pads(chooser, blocks, -(-columns // RING_BITS)).view(np.uint64)
        found = np.empty(self._shape, dtype=np.int64)
        for column in range(columns):
            place = np.uint64(column % RING_BITS)
            bits = (drawn[column // RING_BITS] >> place).astype(np.uint8) & np.uint8(1)
            found[column] = words_of_bits(bits.reshape(words, RING_BITS))
        return found

    def hidden(
        self, zero: Integers, one: Integers, differences: Integers
    ) -> tuple[bytes, Integers]:
        """Returns a message, and shares."""
        return (zero ^ one ^ differences).astype("<i8").tobytes(), zero

    def found(self, pads: Integers, choices: Bytes, message: bytes) -> Integers:
        """Returns the shares of the one who chose."""
        sent = np.frombuffer(message, dtype="<i8").reshape(self._shape)
        found: Integers = pads ^ (words_of_bits(choices.reshape(-1, RING_BITS)) & sent)
        return found

    def add(self, total: Integers, shares: Integers) -> None:
        """Adds shares to shares."""
        total ^= shares


class Additive:
    """Shares modulo powers of 256, of differences that are words, of shape (columns, count).

    Transfers need the low `kept` bytes, (1 or more,), of their words, repeated `repeats` times.
    Shares add up to the products modulo 256^kept.
    """

    def __init__(self, columns: int, kept: Integers, repeats: int) -> None:
        self._kept, self._shape = kept, (columns, repeats, len(kept))
        self.unit = self.width = len(kept)
        self.count = repeats * len(kept)
        self.size = columns * repeats * int(kept.sum())
        self._rows = [np.flatnonzero(kept > byte) for byte in range(WORD_BYTES)]

    def part(self, units: int) -> "Additive":
        """Returns the form of so many repetitions."""
        return Additive(self._shape[0], self._kept, units)

    def none(self) -> Integers:
        """Returns shares of zero."""
        return np.zeros((self._shape[0], self.count), dtype=np.int64)

    def pads(self, pair: Pair, chooser: int, blocks: Bytes) -> Integers:
        """Returns a word for each transfer and difference."""
        return pair.pads(chooser, blocks, self._shape[0])

    def hidden(
        self, zero: Integers, one: Integers, differences: Integers
    ) -> tuple[bytes, Integers]:
        """Returns a message, and shares."""
        words = np.ascontiguousarray(zero + differences - one).astype("<i8", copy=False)
        split = words.view(np.uint8).reshape(*self._shape, WORD_BYTES)
        parts = [split[:, :, rows, byte].tobytes() for byte, rows in enumerate(self._rows)]
        return b"".join(parts), -zero

    def found(self, pads: Integers, choices: Bytes, message: bytes) -> Integers:
        """Returns the shares of the one who chose."""
        split = np.zeros((*self._shape, WORD_BYTES), dtype=np.uint8)
        start = 0
        for byte, rows in enumerate(self._rows):
            size = self._shape[0] * self._shape[1] * len(rows)
            part = np.frombuffer(message, dtype=np.uint8, count=size, offset=start)
            split[:, :, rows, byte] = part.reshape(*self._shape[:2], len(rows))
            start += size
        sent = split.view("<i8").reshape(self._shape[0], self.count)
        sent *= choices
        sent += pads
        return sent

    def add(self, total: Integers, shares: Integers) -> None:
        """Adds shares to shares."""
        total += shares


def products(
    peers: Peers,
    form: Form,
    choices: Bytes,
    differences: Integers,
    pairs: Pairs,
) -> Making[Integers]:
    """Returns this party's shares of the sum of x d over pairs of a chooser and a sender.

    `choices` are this party's bits, (count,), of use if it chooses; `differences` its own, of the
    form's shape, of use if it sends.

    Guarantees:
        A sender sees the choices under a stream of which it lacks a seed, a chooser the differences
        under pads of blocks that it lacks. No block serves twice.

    Cost:
        Two rounds, and two more for every further `MOST` transfers, which bound what a party holds
        meanwhile. A chooser sends 4 bytes a transfer to each sender, which sends `form.size`.

    Raises TransferError, which names the sender, if a message is malformed.
    """
    if form.count <= MOST:
        return (yield from _at_once(peers, form, choices, differences, pairs))
    parts, units = [], max(1, MOST // form.unit)
    for start in range(0, form.count // form.unit, units):
        part = form.part(min(units, form.count // form.unit - start))
        chosen = choices[start * form.unit :][: part.count]
        places = slice(
            start * form.width, start * form.width + part.count // form.unit * form.width
        )
        parts.append((yield from _at_once(peers, part, chosen, differences[:, places], pairs)))
    return np.concatenate(parts, axis=1)


def _at_once(
    peers: Peers, form: Form, choices: Bytes, differences: Integers, pairs: Pairs
) -> Making[Integers]:
    rank = peers.rank
    to_choose = [one for one in peers.others if pairs(rank, one)]
    to_send = [one for one in peers.others if pairs(one, rank)]
    total = form.none()
    if not form.count:
        yield Round()
        yield Round()
        return total
    asked, kept = {}, {}
    for one in to_choose:
        asked[one], kept[one] = peers.others[one].receiver.extend(choices)
    came = yield Round(asked, dict.fromkeys(to_send, message_bytes(form.count)))
    answers = {}
    for one in to_send:
        pair = peers.others[one]
        with told_by(one):
            blocks = pair.sender.extend(form.count, came[one])
        zero = form.pads(pair, one, blocks)
        other = form.pads(pair, one, blocks ^ pair.sender.delta)
        answers[one], shares = form.hidden(zero, other, differences)
        form.add(total, shares)
    came = yield Round(answers, dict.fromkeys(to_choose, form.size))
    for one in to_choose:
        with told_by(one):
            check_size("sender's differences", came[one], form.size)
            pads = form.pads(peers.others[one], rank, kept[one])
            form.add(total, form.found(pads, choices, came[one]))
    return total


def bits_of_words(words: Integers) -> Bytes:
    """Returns all bits of words, from the lowest, shape (*words, 64), a byte each."""
    flat = np.ascontiguousarray(words).astype("<i8", copy=False).reshape(-1)
    bits = np.unpackbits(flat.view(np.uint8), bitorder="little")
    return bits.reshape(*words.shape, RING_BITS)


def words_of_bits(bits: Bytes) -> Integers:
    """Returns words (...) from their bits, bytes 0 or 1, shape (..., 64)."""
    packed = np.packbits(bits.reshape(-1), bitorder="little")
    return packed.view("<i8").astype(np.int64, copy=False).reshape(bits.shape[:-1])
