"""A client's part of masked aggregation on a graph that the clients draw."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from extensions.errors import MessageError
from fl.masked.ciphers import KEY_BYTES, derive
from fl.masked.client import MaskedClient
from fl.masked.sparse.graph import drawn
from fl.masked.sparse.merkle import DIGEST_BYTES, root_of
from fl.masked.sparse.terms import SparseRoster, SparseTerms, consented, leaf_of
from fl.masked.terms import SEALED, Bytes, as_bytes
from fl.round.machines import Output
from fl.round.messages import SERVER, Message, Value
from fl.round.state import numbers

_DEPTH = 63


class SparseClient(MaskedClient):
    """Does with its neighbours what `MaskedClient` does with all others.

    It draws its holders itself, and opens shares of those alone who have masks with it.

    Attributes:
        holders: neighbours that get shares of its secrets.
        dealing: neighbours whose shares it gets, if they deal any.
    """

    _terms: SparseTerms
    _roster: SparseRoster
    holders: tuple[int, ...] = ()
    dealing: tuple[int, ...] = ()
    _dealt: frozenset[int] = frozenset()
    _drawn: frozenset[int] = frozenset()
    _unproved: Sequence[int] = ()

    def state(self) -> dict[str, Value]:
        named = {
            "holders": self.holders,
            "dealing": self.dealing,
            "dealt": sorted(self._dealt),
            "drawn": sorted(self._drawn),
            "unproved": self._unproved,
        }
        return super().state() | {name: numbers(some) for name, some in named.items()}

    def restore(self, state: Message) -> None:
        super().restore(state)
        self.holders, self.dealing = state.clients("holders"), state.clients("dealing")
        self._dealt = frozenset(state.clients("dealt"))
        self._drawn = frozenset(state.clients("drawn"))
        self._unproved = state.clients("unproved")

    def _roster_of(self, clients: tuple[int, ...], adverts: Bytes, session: bytes) -> SparseRoster:
        return SparseRoster(clients, adverts, session)

    def start(self, now: float) -> Iterable[Output]:
        terms = self._terms
        self._drawn = frozenset(drawn(self.party, terms.clients, terms.degree.neighbours))
        for message in super().start(now):
            assert isinstance(message, Message)
            yield replace(message, body={**message.body, "drawn": terms.marks(self._drawn)})

    def _deal(self, message: Message) -> Message:
        """Returns a share of the mask key and one of the seed, sealed for each holder."""
        if message.integer("needed") != self._terms.degree.needed:
            needed = self._terms.degree.needed
            raise MessageError(f"the server names a number of shares that is not {needed}")
        self._meet(message, self._terms.met(message, self.party))
        if len(self.holders) < self._terms.degree.needed:
            few, needed = len(self.holders), self._terms.degree.needed
            raise MessageError(f"{few} neighbours are left, of the {needed} that are needed")
        self._agree(client for client in self._roster.clients if client != self.party)
        sealed = self._sealed(self.holders, self._terms.degree.needed)
        return self.send(SERVER, "shares", sealed=sealed)

    def _meet(self, message: Message, adverts: Mapping[int, Bytes]) -> None:
        """Takes note of the neighbours, and of their keys."""
        flags = message.array("draws_you", np.uint8, (len(adverts),)).tolist()
        self.holders = tuple(client for client in adverts if client in self._drawn)
        self.dealing = tuple(c for c, flag in zip(adverts, flags, strict=True) if flag)
        if strangers := sorted(set(adverts).difference(self.holders, self.dealing)):
            raise MessageError(f"{message.kind!r} lists {strangers[:9]}, who are no neighbours")
        path = message.array("path", np.uint8, (-1, DIGEST_BYTES))[:_DEPTH]
        own = leaf_of(self.party, self._advert)
        root = root_of(own, message.integer("place"), [row.tobytes() for row in path])
        all_adverts = {self.party: self._advert, **adverts}
        self._roster = SparseRoster.of_some(self._terms.session(root), all_adverts)

    def _mask(self, message: Message) -> Message:
        """Returns the masked values (the paper's y_u), and whose shares cannot be opened.

        Tags show the holders that there are masks with them.
        """
        dealt = self._dealt = self._terms.many(message, "dealt", self._terms.clients)
        self._check_listed(message, dealt)
        self._dealers = tuple(client for client in self.dealing if client in dealt)
        rows = message.array("sealed", np.uint8, (len(self._dealers), *SEALED))
        unreadable = self._unreadable(rows)
        peers = dealt.intersection(self._roster.clients) - {self.party}
        values = self._masked(sorted(peers))
        tags = b"".join(self._tag(self.party, c) for c in self.holders if c in dealt)
        proofs = as_bytes(tags).reshape(-1, KEY_BYTES)
        return self.send(SERVER, "masked", values=values, unreadable=unreadable, tags=proofs)

    def _check_listed(self, message: Message, clients: frozenset[int]) -> None:
        if self.party not in clients:
            raise MessageError(f"{message.kind!r} leaves out its reader")
        if hidden := sorted((self._drawn & clients).difference(self._roster.clients)):
            raise MessageError(f"{message.kind!r} lists {hidden[:9]}, whose keys were not sent")

    def _tag(self, dealer: int, holder: int) -> bytes:
        """Returns what shows the holder that the dealer has a mask with it, and with whom else."""
        secret = self._agreed[holder if dealer == self.party else dealer]
        pair, listed = self._roster.pair(dealer, holder), self._listed
        return derive(secret, pair, "masked", dealer, holder, listed)

    @cached_property
    def _listed(self) -> str:
        """A digest of who dealt shares, once that is known."""
        return hashlib.sha256(self._terms.marks(self._dealt).tobytes()).hexdigest()

    def _consent(self, message: Message) -> Message:
        """Returns the client's signature under both lists, and whose tags are wrong."""
        survivors = self._terms.many(message, "survivors", self._dealt)
        self._check_listed(message, survivors)
        self._survivors = tuple(sorted(survivors))
        proving = [client for client in self._dealers if client in survivors]
        tags = message.array("tags", np.uint8, (len(proving), KEY_BYTES))
        self._unproved = [
            client
            for client, tag in zip(proving, tags, strict=True)
            if not hmac.compare_digest(tag.tobytes(), self._tag(client, self.party))
        ]
        unproved = np.array(self._unproved, dtype=np.int64)
        signature = self._sign(self._consented())
        return self.send(SERVER, "consent", signature=signature, unproved=unproved)

    def _consented(self) -> bytes:
        marks = (self._terms.marks(some) for some in (self._dealt, frozenset(self._survivors)))
        return consented(self._roster.session, *marks)

    def _open(self, message: Message) -> Message:
        """Returns keys of one share of each dealer: of a survivor's seed, else of its mask key.

        None of a survivor whose tag was wrong. Raises MessageError if fewer than t survivors signed
        the lists that this client signed.
        """
        signers = sorted(self._terms.many(message, "signers", self._survivors))
        signatures = message.array(
            "signatures", np.uint8, (len(signers), self._terms.signature_bytes)
        )
        self._terms.verify_enough(signers, signatures, self._consented())
        keys = np.array(self._keys())
        keys[[self._dealers.index(client) for client in self._unproved]] = 0
        return self.send(SERVER, "unmask", keys=keys)
