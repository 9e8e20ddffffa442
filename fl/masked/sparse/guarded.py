"""A client's and the server's part where clients draw the graph, and the server may lie."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from extensions.errors import MessageError
from fl.masked.ciphers import KEY_BYTES, derive
from fl.masked.client import Step
from fl.masked.sparse.client import SparseClient
from fl.masked.sparse.graph import Graph, drawn
from fl.masked.sparse.merkle import DIGEST_BYTES, Tree, leaf, root_of
from fl.masked.sparse.server import Advert, SparseServer
from fl.masked.sparse.terms import SparseTerms
from fl.masked.stages import Close, Read
from fl.masked.terms import Bytes, as_bytes
from fl.round.machines import Output
from fl.round.messages import SERVER, Message, Value
from fl.round.state import numbers

_DEPTH = 63


def _leaf(client: int, advert: Bytes) -> bytes:
    return leaf(client.to_bytes(8) + advert.tobytes())


def _session(terms: SparseTerms, root: bytes) -> bytes:
    return hashlib.sha256(terms.context + root).digest()


def consented(session: bytes, dealt: Bytes, survivors: Bytes) -> bytes:
    """Returns what clients sign to consent to who dealt shares and who survived, as marks."""
    return b"survivors" + session + dealt.tobytes() + survivors.tobytes()


class GuardedClient(SparseClient):
    """Draws its holders itself, and opens shares of those alone who have masks with it."""

    _drawn: frozenset[int] = frozenset()
    _unproved: Sequence[int] = ()

    def state(self) -> dict[str, Value]:
        """As `Machine.state`."""
        kept = {"drawn": sorted(self._drawn), "unproved": self._unproved}
        return super().state() | {name: numbers(some) for name, some in kept.items()}

    def restore(self, state: Message) -> None:
        """As `Machine.restore`."""
        super().restore(state)
        self._drawn = frozenset(state.clients("drawn"))
        self._unproved = state.clients("unproved")

    def _steps(self) -> Mapping[str, Step]:
        return {**super()._steps(), "survivors": self._consent, "consents": self._open}

    def start(self, now: float) -> Iterable[Output]:
        """Yields the advertisement of fresh keys, with the clients that it draws."""
        terms = self._terms
        self._drawn = frozenset(drawn(self.party, terms.clients, terms.degree.neighbours))
        for message in super().start(now):
            assert isinstance(message, Message)
            yield replace(message, body={**message.body, "drawn": terms.marks(self._drawn)})

    def _meet(self, message: Message, adverts: Mapping[int, Bytes]) -> None:
        flags = message.array("draws_you", np.uint8, (len(adverts),)).tolist()
        self.holders = tuple(client for client in adverts if client in self._drawn)
        self.dealing = tuple(c for c, flag in zip(adverts, flags, strict=True) if flag)
        if strangers := sorted(set(adverts).difference(self.holders, self.dealing)):
            raise MessageError(f"{message.kind!r} lists {strangers[:9]}, who are no neighbours")
        path = message.array("path", np.uint8, (-1, DIGEST_BYTES))[:_DEPTH]
        own = _leaf(self.party, self._advert)
        root = root_of(own, message.integer("place"), [row.tobytes() for row in path])
        self._know(_session(self._terms, root), adverts)

    def _check_listed(self, message: Message, clients: frozenset[int]) -> None:
        super()._check_listed(message, clients)
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

    def _proofs(self) -> dict[str, Value]:
        tags = [self._tag(self.party, c) for c in self.holders if c in self._dealt]
        return {"tags": as_bytes(b"".join(tags)).reshape(-1, KEY_BYTES)}

    def _consent(self, message: Message) -> Message:
        """Returns the client's signature under both lists, and whose tags are wrong."""
        self._heard(message)
        proving = [client for client in self._dealers if client in set(self._survivors)]
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
        """Returns keys of one share of each dealer; none of a survivor whose tag was wrong.

        Raises:
            MessageError: fewer than t survivors signed the lists that this client signed.
        """
        signers = sorted(self._terms.many(message, "signers", self._survivors))
        signatures = message.array(
            "signatures", np.uint8, (len(signers), self._terms.signature_bytes)
        )
        self._terms.verify_enough(signers, signatures, self._consented())
        keys = np.array(self._keys())
        keys[[self._dealers.index(client) for client in self._unproved]] = 0
        return self.send(SERVER, "unmask", keys=keys)


class GuardedServer(SparseServer):
    """Relays what clients draw, and the tags and consents by which they check each other."""

    def __init__(self, terms: SparseTerms, timeout: float) -> None:
        super().__init__(terms, timeout)
        self._drawn: dict[int, frozenset[int]] = {}
        self._tags: dict[tuple[int, int], Bytes] = {}
        self._tree: Tree

    def _stages(self) -> Mapping[str, tuple[Read, Close]]:
        stages = dict(super()._stages())
        unmask = stages.pop("unmask")
        return {
            **stages,
            "consent": (self._read_consent, self._send_consents),
            "unmask": unmask,
        }

    def _read_advert(self, message: Message) -> Advert:
        chosen = self._terms.marked(message, "drawn") - {message.sender}
        if len(chosen) != self._terms.degree.neighbours:
            raise MessageError(f"it draws {len(chosen)} clients, not as many as it must")
        self._drawn[message.sender] = chosen
        return super()._read_advert(message)

    def _whole(self) -> Graph:
        return Graph({client: sorted(chosen) for client, chosen in self._drawn.items()})

    def _session(self, adverts: Mapping[int, Bytes]) -> bytes:
        self._tree = Tree([_leaf(client, advert) for client, advert in adverts.items()])
        return _session(self._terms, self._tree.root)

    def _told(self, client: int, met: Sequence[int]) -> dict[str, Value]:
        dealing = set(self._graph.dealers[client])
        place = self._roster.place[client]
        path = as_bytes(b"".join(self._tree.path(place))).reshape(-1, DIGEST_BYTES)
        flags = np.array([c in dealing for c in met], dtype=np.uint8)
        return {"draws_you": flags, "place": place, "path": path}

    def _read_masked(self, message: Message) -> None:
        holders = [c for c in self._graph.holders[message.sender] if c in self._dealt]
        tags = message.array("tags", np.uint8, (len(holders), KEY_BYTES))
        super()._read_masked(message)
        self._tags.update({(message.sender, c): tag for c, tag in zip(holders, tags, strict=True)})

    def _proofs(self, holder: int) -> dict[str, Value]:
        proving = (c for c in self._unmasking.dealers(holder) if c in self._unmasking.summed)
        tags = b"".join(self._tags[dealer, holder].tobytes() for dealer in proving)
        return {"tags": as_bytes(tags).reshape(-1, KEY_BYTES)}

    def _consented(self) -> bytes:
        marks = (self._terms.marks(some) for some in (self._dealt, self._unmasking.summed))
        return consented(self._roster.session, *marks)

    def _read_consent(self, message: Message) -> Bytes:
        unproved = message.array("unproved", np.int64, (-1,)).tolist()
        if not set(unproved) <= set(self._unmasking.dealers(message.sender)):
            raise MessageError(f"it has no tags of {unproved[:9]}, who dealt it no share")
        signature = message.array("signature", np.uint8, (self._terms.signature_bytes,))
        self._terms.verify(message.sender, signature, self._consented())
        self._disputed.update((dealer, message.sender) for dealer in unproved)
        return signature

    def _send_consents(self, answers: dict[int, Bytes], now: float) -> Iterable[Output]:
        signers = list(answers)[: self._terms.threshold]
        marks, rows = self._terms.marks(signers), np.stack([answers[c] for c in signers])
        for client in answers:
            yield self.send(client, "consents", signers=marks, signatures=rows)
        yield from self._open_next(answers, now)
