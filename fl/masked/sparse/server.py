"""The part of a server that draws the graph."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fl.masked.ciphers import KEY_BYTES
from fl.masked.server import MaskedServer
from fl.masked.sparse.graph import Graph, ring
from fl.masked.sparse.terms import SparseRoster, SparseTerms
from fl.masked.stages import Close, Read
from fl.masked.terms import SEALED, Bytes
from fl.masked.unmasking import Unmasking
from fl.round.machines import Output
from fl.round.messages import Message, Value

Advert = tuple[Bytes, Bytes]
"""Keys, and the signature under them."""


@dataclass(frozen=True, eq=False)
class SparseUnmasking(Unmasking):
    """What the server knows when clients send it keys of their neighbours' shares.

    Attributes:
        graph: who holds shares of whom.
    """

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
    """Draws the graph, and does what `MaskedServer` does, without consents.

    Args:
        terms: of the round.
        timeout: seconds that clients have in each stage.
    """

    _terms: SparseTerms
    _roster: SparseRoster
    _unmasking: SparseUnmasking

    def __init__(self, terms: SparseTerms, timeout: float) -> None:
        super().__init__(terms, timeout)
        self._graph = Graph({})

    def _stages(self) -> Mapping[str, tuple[Read, Close]]:
        return {
            "advertise": (self._read_advert, self._send_keys),
            "shares": (self._read_shares, self._send_shares),
            "masked": (self._read_masked, self._send_survivors),
            "unmask": (self._read_keys, self._aggregate),
        }

    def _whole(self) -> Graph:
        """Returns the graph of all clients that were announced."""
        return ring(self._terms.clients, self._terms.degree.neighbours)

    def _session(self, adverts: Mapping[int, Bytes]) -> bytes:
        return self._terms.context

    def _send_keys(self, answers: dict[int, Advert], now: float) -> Iterable[Output]:
        self._graph = self._whole().among(answers)
        adverts = {client: advert for client, (advert, _) in answers.items()}
        self._roster = SparseRoster.of_some(self._session(adverts), adverts)
        for client in answers:
            met = sorted(self._graph.neighbours[client])
            yield self.send(
                client,
                "keys",
                needed=self._terms.degree.needed,
                clients=np.array(met, dtype=np.int64),
                adverts=_rows([answers[c][0] for c in met], self._roster.adverts.shape[1:]),
                signatures=_rows([answers[c][1] for c in met], answers[client][1].shape),
                **self._told(client, met),
            )
        yield from self._open_next(answers, now)

    def _told(self, client: int, met: Sequence[int]) -> dict[str, Value]:
        """Returns what else a client is told with the keys of those that it meets."""
        return {}

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
        dealers = self._dealt.keys() & set(self._graph.dealers[message.sender])
        self._add(message, dealers)

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
            yield self.send(client, "survivors", survivors=marks, **self._proofs(client))
        yield from self._open_next(answers, now)

    def _proofs(self, holder: int) -> dict[str, Value]:
        """Returns what survivors showed the holder of their shares."""
        return {}

    def _read_keys(self, message: Message) -> dict[int, bytes]:
        dealers = len(self._unmasking.dealers(message.sender))
        keys = message.array("keys", np.uint8, (dealers, KEY_BYTES))
        return self._unmasking.shares(message.sender, keys)


def _rows(rows: Sequence[Bytes], shape: tuple[int, ...]) -> Bytes:
    return np.array(rows, dtype=np.uint8).reshape(-1, *shape)
