"""What a party has in common with each other one: transfers both ways, lattice keys, a seed.

Nothing of it is shared by three, so what two parties do tells the others nothing.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from extensions.errors import CiphertextError, TransferError
from extensions.ring.fixed_point import Integers
from extensions.ring.tuples import MOST_MAKERS, Sharing
from extensions.rules import Whole
from extensions.two_party.lattice.flooding import Flooding
from extensions.two_party.lattice.product import KeyOwner, Multiplier
from extensions.two_party.lattice.residues import Stream
from extensions.two_party.oblivious_transfer.base import KEY_BYTES
from extensions.two_party.oblivious_transfer.blocks import BITS, BLOCK, Bytes, Hash
from extensions.two_party.oblivious_transfer.extension import Receiver, Sender
from extensions.two_party.oblivious_transfer.tree import SUMS_BYTES
from extensions.two_party.pairwise.rounds import Making, Round

FLOODING = Flooding(coefficients=1 << 36)
"""As long a run as shares are multiplied in one limb for: 10^5 steps that reveal 700,000 each."""
_ANSWER_BYTES = BITS * 2 * KEY_BYTES
_PAIR_WORDS = BLOCK // 8


@dataclass
class Pair:
    """What two parties have.

    Attributes:
        rank: of the other one.
        receiver: of transfers by this party's bits.
        sender: of transfers by the other one's.
        multiplier: of what the other one encrypts.
        zeros: the stream of words that both have.
        label: of this session, equal at both.
    """

    rank: int
    receiver: Receiver
    sender: Sender
    multiplier: Multiplier
    zeros: Stream
    label: bytes

    def __post_init__(self) -> None:
        self._hashes: dict[tuple[int, int], Hash] = {}

    def pads(self, chooser: int, blocks: Bytes, words: int) -> Integers:
        """Returns so many words for each block, shape (words, blocks); a hash for every two."""
        found = [self._hash(chooser, i)(blocks) for i in range(-(-words // _PAIR_WORDS))]
        columns = [hashed.view("<i8").T for hashed in found]
        return np.concatenate(columns)[:words].astype(np.int64, copy=False)

    def _hash(self, chooser: int, index: int) -> Hash:
        key = chooser, index
        if key not in self._hashes:
            said = b"pads %d %d " % key + self.label
            self._hashes[key] = Hash(hashlib.sha256(said).digest()[:BLOCK])
        return self._hashes[key]


class Peers:
    """A party's end of all its pairs, which are `others` by rank.

    `owner` is of its lattice key, `own` the stream that only this party has. `standing` has rows of
    this party, by number, that it multiplies by others' masks again and again.
    """

    def __init__(self, rank: int, parties: int, others: dict[int, Pair], owner: KeyOwner) -> None:
        self.rank, self.parties, self.others, self.owner = rank, parties, others, owner
        self.own = Stream()
        self.standing: dict[int, Integers] = {}

    @property
    def is_first(self) -> bool:
        """Whether this party is the one that adds public words."""
        return self.rank == 0

    def draw(self, shape: tuple[int, ...]) -> Integers:
        """Returns uniform words that no other party knows."""
        return self.own.words(*shape).view(np.int64)

    def zeros(self, shape: tuple[int, ...], sharing: Sharing) -> Integers:
        """Returns shares of zeros, uniform to all who lack one of two parties."""
        total = np.zeros(shape, dtype=np.int64)
        for pair in self.others.values():
            words = pair.zeros.words(*shape).view(np.int64)
            if sharing == "xor":
                total ^= words
            elif self.rank < pair.rank:
                total += words
            else:
                total -= words
        return total


@contextmanager
def told_by(rank: int) -> Iterator[None]:
    """In the block a message of this party is read: an error about it says whose it is."""
    try:
        yield
    except (TransferError, CiphertextError) as error:
        raise type(error)(f"party {rank}: {error}") from error


def meet(rank: int, parties: int) -> Making[Peers]:
    """Returns this party's end once every two parties have exchanged keys.

    Cost:
        Three rounds; 537 kB from each party to each other one.

    Raises:
        ArgumentError: a number of parties outside 2..4, or a rank that none of them has.
        MissingExtraError: `seal-python` is not installed.
        CiphertextError: a party's lattice key is of other parameters; it is named.
        TransferError: a party's key is malformed; it is named.
    """
    allowed = f"in 2..{MOST_MAKERS}, to make their own tuples"
    Whole(2, MOST_MAKERS, allowed).check("parties", parties)
    Whole(0, parties - 1).check("rank", rank)
    ranks = [other for other in range(parties) if other != rank]
    owner, receivers = KeyOwner(), {other: Receiver() for other in ranks}
    private = X25519PrivateKey.generate()
    public, key = private.public_key().public_bytes_raw(), owner.public_key()
    begun = {other: public + receivers[other].begin() + key for other in ranks}
    came = yield Round(begun, {other: len(begun[other]) for other in ranks})
    senders, multipliers, secrets = {}, {}, {}
    for other in ranks:
        with told_by(other):
            theirs, base = came[other][:KEY_BYTES], came[other][KEY_BYTES : 2 * KEY_BYTES]
            secrets[other] = _agreed(private, theirs)
            senders[other] = Sender(base)
            multipliers[other] = Multiplier(came[other][2 * KEY_BYTES :], FLOODING)
    answers = {other: senders[other].answer() for other in ranks}
    answered = yield Round(answers, dict.fromkeys(ranks, _ANSWER_BYTES))
    trees = {}
    for other in ranks:
        with told_by(other):
            trees[other] = receivers[other].trees(answered[other])
    grown = yield Round(trees, dict.fromkeys(ranks, SUMS_BYTES))
    others = {}
    for other in ranks:
        with told_by(other):
            senders[other].finish(grown[other])
        first, second = sorted((rank, other))
        both = begun[other][: 2 * KEY_BYTES], came[other][: 2 * KEY_BYTES]
        label = b"%d %d " % (first, second) + b"".join(both if rank == first else both[::-1])
        others[other] = Pair(
            other,
            receivers[other],
            senders[other],
            multipliers[other],
            Stream(hashlib.sha256(b"zeros " + secrets[other] + label).digest()),
            label,
        )
    return Peers(rank, parties, others, owner)


def _agreed(private: X25519PrivateKey, theirs: bytes) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError as error:
        raise TransferError("the key is a point of small order, which cannot be a key.") from error
