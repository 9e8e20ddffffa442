"""The server's part where clients draw the graph, and the server may lie."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from extensions.errors import MessageError
from fl.masked.ciphers import KEY_BYTES
from fl.masked.server import MaskedServer
from fl.masked.sparse.graph import Graph
from fl.masked.sparse.merkle import DIGEST_BYTES, Tree
from fl.masked.sparse.terms import SparseRoster, SparseTerms, consented, leaf_of
from fl.masked.terms import SEALED, Bytes, as_bytes
from fl.masked.unmasking import Unmasking
from fl.round.machines import Output
from fl.round.messages import Message

Advert = tuple[Bytes, Bytes]
"""Keys, and the signature under them."""


@dataclass(frozen=True, eq=False)
class SparseUnmasking(Unmasking):
    """What the server knows when clients send it keys of their neighbours' shares, by a graph."""

    graph: Graph

    def dealers(self, holder: int) -> Sequence[int]:
        """Returns the dealers of whose shares the client holds one, in ascending order."""
        return [dealer for dealer in self.graph.dealers[holder] if dealer in self.dealt]

    def _row(self, dealer: int, holder: int) -> Bytes:
        row: Bytes = self.dealt[dealer][self.graph.row(dealer, holder)]
        return row

    def _masked_with(self, lost: int) -> Iterable[int]:
        return self.graph.neighbours[lost] & self.summed


class SparseServer(MaskedServer):
    """Relays what clients draw, and the tags and consents by which they check each other."""

    _terms: SparseTerms
    _roster: SparseRoster
    _unmasking: SparseUnmasking

    def __init__(self, terms: SparseTerms, timeout: float) -> None:
        super().__init__(terms, timeout)
        self._graph = Graph({})
        self._drawn: dict[int, frozenset[int]] = {}
        self._tags: dict[tuple[int, int], Bytes] = {}

    def _read_advert(self, message: Message) -> Advert:
        chosen = self._terms.marked(message, "drawn") - {message.sender}
        if len(chosen) != self._terms.degree.neighbours:
            raise MessageError(f"it draws {len(chosen)} clients, not as many as it must")
        self._drawn[message.sender] = chosen
        return super()._read_advert(message)

    def _send_keys(self, answers: dict[int, Advert], now: float) -> Iterable[Output]:
        whole = Graph({client: sorted(chosen) for client, chosen in self._drawn.items()})
        self._graph = whole.among(answers)
        adverts = {client: advert for client, (advert, _) in answers.items()}
        tree = Tree([leaf_of(client, advert) for client, advert in adverts.items()])
        self._roster = SparseRoster.of_some(self._terms.session(tree.root), adverts)
        for client in answers:
            met, dealing = sorted(self._graph.neighbours[client]), self._graph.dealers[client]
            place = self._roster.place[client]
            yield self.send(
                client,
                "keys",
                needed=self._terms.degree.needed,
                clients=np.array(met, dtype=np.int64),
                adverts=_rows([answers[c][0] for c in met], self._roster.adverts.shape[1:]),
                signatures=_rows([answers[c][1] for c in met], answers[client][1].shape),
                draws_you=np.isin(met, dealing).astype(np.uint8),
                place=place,
                path=as_bytes(b"".join(tree.path(place))).reshape(-1, DIGEST_BYTES),
            )
        yield from self._open_next(answers, now)

    def _read_shares(self, message: Message) -> Bytes:
        holders = len(self._graph.holders[message.sender])
        return message.array("sealed", np.uint8, (holders, *SEALED))

    def _send_shares(self, answers: dict[int, Bytes], now: float) -> Iterable[Output]:
        self._dealt = answers
        self._total = np.zeros(self._terms.words, dtype=self._terms.fixed_point.dtype)
        marks = self._terms.marks(answers)
        for holder in answers:
            dealers = [c for c in self._graph.dealers[holder] if c in answers]
            sealed = [answers[dealer][self._graph.row(dealer, holder)] for dealer in dealers]
            yield self.send(holder, "sealed", dealt=marks, sealed=_rows(sealed, SEALED))
        yield from self._open_next(answers, now)

    def _read_masked(self, message: Message) -> None:
        holders = [c for c in self._graph.holders[message.sender] if c in self._dealt]
        tags = message.array("tags", np.uint8, (len(holders), KEY_BYTES))
        self._add(message, self._dealt.keys() & set(self._graph.dealers[message.sender]))
        self._tags.update({(message.sender, c): tag for c, tag in zip(holders, tags, strict=True)})

    def _send_survivors(self, answers: dict[int, None], now: float) -> Iterable[Output]:
        self._unmasking = SparseUnmasking(
            roster=self._roster,
            threshold=self._terms.degree.needed,
            dealt=self._dealt,
            disputed=self._disputed,
            survivors=tuple(sorted(self._summed)),
            graph=self._graph,
        )
        marks = self._terms.marks(self._unmasking.summed)
        for client in answers:
            yield self.send(client, "survivors", survivors=marks, tags=self._proofs(client))
        yield from self._open_next(answers, now)

    def _proofs(self, holder: int) -> Bytes:
        """Returns what survivors showed the holder of their shares."""
        proving = (c for c in self._unmasking.dealers(holder) if c in self._unmasking.summed)
        tags = b"".join(self._tags[dealer, holder].tobytes() for dealer in proving)
        return as_bytes(tags).reshape(-1, KEY_BYTES)

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

    def _read_keys(self, message: Message) -> dict[int, bytes]:
        dealers = len(self._unmasking.dealers(message.sender))
        keys = message.array("keys", np.uint8, (dealers, KEY_BYTES))
        return self._unmasking.shares(message.sender, keys)


def _rows(rows: Sequence[Bytes], shape: tuple[int, ...]) -> Bytes:
    return np.array(rows, dtype=np.uint8).reshape(-1, *shape)
