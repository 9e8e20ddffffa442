"""(9)-(11) of Li et al. for an aggregation that took place, and what they leave out of it.

The formulas count the values that go from party to party. They leave out headers, tags and lists of
clients, the keys that the server sends before its token, and its messages to and from edge nodes.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise

from fl.protocols import SERVER, Party, Transcript
from fl.round.latency import chain_seconds, chains_seconds, star_seconds, transfer_seconds
from fl.simulation import Network

Way = tuple[Party, Party]


class Formulas:
    """The formulas on the links, in the order of the clients, and with the trainings of a round.

    Args:
        network: of the round.
        transcript: all its messages.
        training: seconds of each client.
        payload: bytes of the values of one message.
    """

    def __init__(
        self,
        network: Network,
        transcript: Transcript,
        training: Mapping[int, float],
        payload: int,
    ) -> None:
        self._network = network
        self._training = training
        self._payload = payload
        self._bytes: Counter[Way] = Counter()
        self._chains: defaultdict[Party, list[list[int]]] = defaultdict(list)
        for entry in transcript:
            message = entry.message
            self._bytes[message.sender, message.receiver] += entry.size
            if message.kind == "sum":
                users = message.array("users", "i8", (-1,)).tolist()
                self._chains[message.receiver].append(users)

    def seconds(self) -> tuple[float, float]:
        """Returns the formula's seconds, and how many more all else can take.

        No hop is later than by its own words, those of the hops before it, and as much as the last
        keys come after the formula's first hop: maxima of sums grow by no more than the sums do.
        """
        if self._chains:
            found = [self._collected(party, chains) for party, chains in self._chains.items()]
            formula, words = zip(*found, strict=True)
            return max(formula), max(words)
        ways = [(client, SERVER) for client in self._training]
        uploads = [(self._network.link(*way), self._payload) for way in ways]
        return star_seconds(uploads, list(self._training.values())), max(map(self._words, ways))

    def _collected(self, collector: Party, chains: list[list[int]]) -> tuple[float, float]:
        times, words = [], []
        for users in chains:
            ways = list(pairwise([SERVER, *users, collector]))
            hops = [(self._network.link(*way), self._payload) for way in ways]
            times.append(chain_seconds(hops, [self._training[client] for client in users]))
            keys = max(self._arrival(party) for party in (*users[1:], collector))
            late = max(0.0, keys - transfer_seconds(hops[0]))
            words.append(sum(map(self._words, ways)) + late)
        if collector == SERVER:
            return chains_seconds(times), max(words)
        up, down = (collector, SERVER), (SERVER, collector)
        there, back = self._network.link(*up), self._network.link(*down)
        question = self._bytes[down] / back.bandwidth
        exchange = self._words(up) + there.delay + question + back.delay
        return chains_seconds(times, (there, self._payload)), max(words) + exchange

    def _arrival(self, party: Party) -> float:
        """When a party that gets no token from the server has its keys; 0 for the server."""
        way = (SERVER, party)
        if party == SERVER:
            return 0.0
        return transfer_seconds((self._network.link(*way), self._bytes[way]))

    def _words(self, way: Way) -> float:
        """Seconds of all bytes on a link but those of one message's values."""
        return (self._bytes[way] - self._payload) / self._network.link(*way).bandwidth
