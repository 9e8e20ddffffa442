"""What the parties of a round on a sparse graph agree on beforehand, and the keys of some."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from extensions.errors import MessageError
from fl.masked.sparse.degrees import Degree
from fl.masked.sparse.merkle import leaf
from fl.masked.terms import ADVERT, Bytes, Roster, Terms, check_keys
from fl.round.messages import Message


def leaf_of(client: int, advert: Bytes) -> bytes:
    """Returns a client's leaf in the tree of keys."""
    return leaf(client.to_bytes(8) + advert.tobytes())


def consented(session: bytes, dealt: Bytes, survivors: Bytes) -> bytes:
    """Returns what clients sign to consent to who dealt shares and who survived, as marks."""
    return b"survivors" + session + dealt.tobytes() + survivors.tobytes()


@dataclass(frozen=True)
class SparseTerms(Terms):
    """Terms of a round in which clients have keys with their neighbours alone."""

    degree: Degree

    def _stated(self) -> list[Any]:
        return [*super()._stated(), asdict(self.degree)]

    def session(self, root: bytes) -> bytes:
        """Returns a digest of these terms and of all keys, by the root of their tree."""
        return hashlib.sha256(self.context + root).digest()

    @cached_property
    def clients(self) -> tuple[int, ...]:
        """Those of the round, in ascending order."""
        return self.round.clients

    def marks(self, clients: Collection[int]) -> Bytes:
        """Returns a bit for each client of the round, 1 for those."""
        bits = np.fromiter((c in clients for c in self.clients), dtype=np.uint8)
        return np.packbits(bits)

    def marked(self, message: Message, name: str) -> frozenset[int]:
        """Returns the clients that a message marks, all of this round."""
        count = len(self.clients)
        marks = message.array(name, np.uint8, (-(-count // 8),))
        bits = np.unpackbits(marks)
        if bits[count:].any():
            raise MessageError(f"{message.kind!r} marks more than {count} clients as {name!r}")
        return frozenset(self.clients[place] for place in np.flatnonzero(bits).tolist())

    def many(self, message: Message, name: str, allowed: Collection[int]) -> frozenset[int]:
        """Returns the clients that a message marks: at least t, all of them allowed."""
        clients = self.marked(message, name)
        if len(clients) < self.threshold:
            few = f"{message.kind!r} marks {len(clients)} clients as {name!r}"
            raise MessageError(f"{few}, fewer than the threshold {self.threshold}")
        if strangers := sorted(clients.difference(allowed)):
            raise MessageError(f"{message.kind!r} marks {strangers[:9]} as {name!r}, wrongly")
        return clients

    def met(self, message: Message, reader: int) -> dict[int, Bytes]:
        """Returns what the reader's neighbours advertised and signed, in ascending order."""
        clients = message.clients("clients")
        if list(clients) != sorted(clients) or reader in clients:
            raise MessageError(f"{message.kind!r} lists clients out of order, or its reader")
        if strangers := sorted(set(clients).difference(self.clients)):
            raise MessageError(f"{message.kind!r} lists {strangers[:9]}, who take no part")
        adverts = message.array("adverts", np.uint8, (len(clients), *ADVERT))
        signatures = message.array("signatures", np.uint8, (len(clients), self.signature_bytes))
        for client, advert, signature in zip(clients, adverts, signatures, strict=True):
            self.verify(client, signature, self.advertised(advert))
        return dict(zip(clients, adverts, strict=True))


@dataclass(frozen=True, eq=False)
class SparseRoster(Roster):
    """The keys of some clients, where those of each pair serve for that pair alone."""

    @classmethod
    def of_some(cls, session: bytes, adverts: Mapping[int, Bytes]) -> "SparseRoster":
        """Returns the roster of adverts whose signatures were verified; no key may occur twice."""
        seen: dict[bytes, int] = {}
        for client, advert in adverts.items():
            check_keys(client, advert, seen)
        clients = tuple(sorted(adverts))
        return cls(clients, np.stack([adverts[client] for client in clients]), session)

    def pair(self, one: int, other: int) -> bytes:
        """Returns a digest of the session and of what both clients advertised."""
        first, second = sorted((one, other))
        rows = self.advert(first).tobytes() + self.advert(second).tobytes()
        return hashlib.sha256(self.session + rows).digest()
