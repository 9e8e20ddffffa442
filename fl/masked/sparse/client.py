"""A client's part of masked aggregation on a graph that a curious server draws."""

from collections.abc import Mapping

import numpy as np

from extensions.errors import MessageError
from fl.masked.client import MaskedClient, Step
from fl.masked.sparse.terms import SparseRoster, SparseTerms
from fl.masked.terms import SEALED, Bytes
from fl.round.messages import SERVER, Message, Value
from fl.round.state import numbers


class SparseClient(MaskedClient):
    """Does with its neighbours what `MaskedClient` does with all others.

    Attributes:
        holders: neighbours that get shares of its secrets.
        dealing: neighbours whose shares it gets, if they deal any.
    """

    _terms: SparseTerms
    _roster: SparseRoster
    holders: tuple[int, ...] = ()
    dealing: tuple[int, ...] = ()
    _dealt: frozenset[int] = frozenset()

    def state(self) -> dict[str, Value]:
        """As `Machine.state`."""
        named = {"holders": self.holders, "dealing": self.dealing, "dealt": sorted(self._dealt)}
        return super().state() | {name: numbers(some) for name, some in named.items()}

    def restore(self, state: Message) -> None:
        """As `Machine.restore`."""
        super().restore(state)
        self.holders, self.dealing = state.clients("holders"), state.clients("dealing")
        self._dealt = frozenset(state.clients("dealt"))

    def _roster_of(self, clients: tuple[int, ...], adverts: Bytes, session: bytes) -> SparseRoster:
        return SparseRoster(clients, adverts, session)

    def _steps(self) -> Mapping[str, Step]:
        return {"keys": self._deal, "sealed": self._mask, "survivors": self._open}

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
        self.holders = self.dealing = tuple(adverts)
        self._know(self._terms.context, adverts)

    def _know(self, session: bytes, adverts: Mapping[int, Bytes]) -> None:
        self._roster = SparseRoster.of_some(session, {self.party: self._advert, **adverts})

    def _mask(self, message: Message) -> Message:
        """Returns the masked values (the paper's y_u), and whose shares cannot be opened."""
        dealt = self._dealt = self._terms.many(message, "dealt", self._terms.clients)
        self._check_listed(message, dealt)
        self._dealers = tuple(client for client in self.dealing if client in dealt)
        rows = message.array("sealed", np.uint8, (len(self._dealers), *SEALED))
        unreadable = self._unreadable(rows)
        peers = dealt.intersection(self._roster.clients) - {self.party}
        values = self._masked(sorted(peers))
        proofs = self._proofs()
        return self.send(SERVER, "masked", values=values, unreadable=unreadable, **proofs)

    def _proofs(self) -> dict[str, Value]:
        """Returns what shows the holders that there are masks with them; nothing here."""
        return {}

    def _check_listed(self, message: Message, clients: frozenset[int]) -> None:
        if self.party not in clients:
            raise MessageError(f"{message.kind!r} leaves out its reader")

    def _heard(self, message: Message) -> None:
        """Takes note of the survivors."""
        survivors = self._terms.many(message, "survivors", self._dealt)
        self._check_listed(message, survivors)
        self._survivors = tuple(sorted(survivors))

    def _open(self, message: Message) -> Message:
        """Returns keys of one share of each dealer: of a survivor's seed, else of its mask key."""
        self._heard(message)
        return self.send(SERVER, "unmask", keys=self._keys())
