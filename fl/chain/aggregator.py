"""Chained aggregation: a masked sum goes from client to client, and comes back to the server."""

from collections.abc import Mapping
from typing import Any, Literal

from extensions.errors import ArgumentError
from extensions.rules import POSITIVE, Whole, one_of
from fl.chain.client import ChainClient, Neighbours
from fl.chain.edge import ChainEdge
from fl.chain.equations import known_sums
from fl.chain.led import Led, LedObserver, leader_of
from fl.chain.server import ChainServer
from fl.chain.token import LEAD
from fl.round.aggregator import Aggregator, Leaks
from fl.round.determined import determined_sums
from fl.round.machines import Machine, Round, Vector
from fl.round.messages import SERVER, Party
from fl.round.quantization import FixedPoint
from fl.round.view import Coalition, Outcome

LedBy = Literal["server", "client"]


class ChainAggregator(Aggregator):
    """Sums updates along chains of clients: each adds its own to a masked sum.

    The server draws a mask r, uniform in the ring, and sends it in a token to a random client. With
    x_i the encoded update of the i-th client times its weight, modulo 2^bits (5)-(8):

        s_1 = r + x_1,  s_i = s_(i-1) + x_i,  sum of all x = s_n - r,  mean = sum / sum of weights.

    Each holder hands the token to a random neighbour that the token has yet to visit. The last one,
    or the holder when time is up, returns it, always with at least two clients in it. Clients
    outside the chain's reach are left out by name.

    Guarantees:
        The mean is exact to the fixed point for the clients in `included`, each counted once,
        whoever drops out. A single client sees uniform values, and the first one the mask itself.
        Two clients together know the sum of the updates between them, so the two neighbours of a
        client on the chain know its update. The server counts as both ends of the chain: with the
        second client it knows the first one's update, and with the second last the last one's.
        Links need TLS, because whoever reads those on both sides of a client also knows its update.
        `leaks_to` derives all of this from the views.

    **Drop-out.** Every hop is reported to the server. If a report is missing after `timeout`, the
    chain goes back to the last good hop, whose client hands its sum to another; if there is none,
    it starts again under a new mask. A client that was only slow may thereby show a second sum to
    those after it, or to the server. They then know the difference of the two, and `leaks_to` says
    so.

    **Without a server** (`led_by="client"`) the clients take turns to lead. The leader does all
    that the server does here, is on the chain as well, and sends everybody the mean. What is said
    of the server then holds for the leader. The experiment's server gets only the mean, as
    everybody does. A round whose leader is lost fails, and the next one has another leader.

    Authenticity:
        Every message with a sum has an HMAC-SHA256 under a key of its round and link, which the
        server hands out. It binds round, chain, hop and values, so only the last holder and the
        server can make a token that the next client accepts, and only once. The token's terms are
        compared with the server's announcement, and its path with the reports of those on it. A
        holder that forges either, or hands the token to two, is named, in whatever order reports
        arrive, and the chain goes on from the last good hop. Outside this protection are the
        server, which knows all keys, and a holder that adds a false update, presents a new token as
        one of an older attempt, or lies about the token that it received.

    Cost:
        A chain takes n + 1 sums of size * bits / 8 bytes, in as many rounds; 64 bytes of keys for
        each pair of clients of a chain, twice; and a short report to the server for every hop. If a
        client leads, add n means of 8 bytes a value.

    Args:
        fixed_point: how updates become ring elements.
        chains: number of chains; the server deals clients to them at random, evenly.
        edges: number of edge nodes, which merge the sums of their chains, so the server only sees
            totals. 0: the server merges, and sees the sum of every chain.
        neighbours: from a client to the clients that it can reach; all unless given.
            `fl.simulation.neighbours` makes such lists.
        time_limit: seconds after which a holder returns the token.
            `fl.simulation.latency.time_limit` is the published rule for a number of clients.
        led_by: who draws masks and follows tokens: "server", or "client", a client of the round.
        timeout: seconds that the server waits for the report of a hop. Give at least the time of
            two hops, because slower clients are treated as lost.

    Raises:
        ArgumentError: an argument outside its range.

    Source:
        Li et al., "Privacy-Preserving Federated Learning Framework Based on Chained Secure
        Multiparty Computing", IEEE IoT J. 8(8), 2021.

    Deviation:
        Masks are uniform in a ring, not floating-point numbers; reports to the server, tags and
        reissued tokens are additions. The paper's "eps -> 0" does not hold: the exact sum is
        released, which is not differentially private.

    Examples:
        >>> updates = {k: np.full(2, float(k)) for k in range(5)}
        >>> outcome = fl.protocols.aggregate(fl.ChainAggregator(), updates)
        >>> outcome.aggregate.mean.tolist()
        [2.0, 2.0]
    """

    between_clients = True

    def __init__(
        self,
        fixed_point: FixedPoint | None = None,
        *,
        chains: int = 1,
        edges: int = 0,
        neighbours: Neighbours | None = None,
        time_limit: float = 600.0,
        timeout: float = 60.0,
        led_by: LedBy = "server",
    ) -> None:
        Whole(1).check("chains", chains)
        Whole(0, chains).check("edges", edges, "Each needs a chain.")
        one_of(LedBy).check("led_by", led_by)
        if led_by == "client" and edges:
            rule, hint = "0 with {led_by=client}", "The leading client merges the chains."
            raise ArgumentError("edges", edges, rule, hint, code="range")
        POSITIVE.check("time_limit", time_limit)
        POSITIVE.check("timeout", timeout)
        self.fixed_point: FixedPoint = fixed_point or FixedPoint()
        self.chains = chains
        self.edges = tuple(SERVER - 1 - edge for edge in range(edges))
        self.neighbours = neighbours
        self.time_limit = time_limit
        self.timeout = timeout
        self.led_by = led_by
        self.one_process = led_by == "client"
        self.min_clients = 2 * chains

    def parameters(self) -> dict[str, Any]:
        """As `Aggregator.parameters`; not whom a client can reach, which a function says."""
        own = {"chains": self.chains, "edges": len(self.edges), "led_by": self.led_by}
        return {**super().parameters(), **own}

    def server(self, round: Round) -> Machine:
        if self.led_by == "client":
            return LedObserver(round, self.time_limit + self.timeout * (2 + len(round.weights)))
        return self._leading(round)

    def _leading(self, round: Round) -> ChainServer:
        return ChainServer(
            round, self.fixed_point, self.chains, self.edges, self.time_limit, self.timeout
        )

    def client(self, round: Round, client: int, update: Vector) -> Machine:
        encoded = self.fixed_point.encode(update, round.weights[client])
        own = ChainClient(round, client, encoded, self.neighbours, self.edges)
        if self.led_by == "server":
            return own
        return Led(own, self._leading(round) if leader_of(round) == client else None)

    def others(self, round: Round) -> Mapping[Party, Machine]:
        """Returns the edge nodes, parties -2, -3, ..."""
        return {edge: ChainEdge(round, edge, self.fixed_point.dtype) for edge in self.edges}

    def leaks_to(self, coalition: Coalition, outcome: Outcome) -> Leaks:
        """Returns the smallest sets whose sums follow from the sums that the coalition saw.

        Every token is an equation: its values are the mask plus the updates of its users. These
        equations and the mean are solved for sums of other clients' updates without masks. Who
        drew a mask sends the first token with it, bare or with its own update, and so knows it.

        A server or a client that lies may get every single update: a server by tokens of its own,
        a client by complaints that send the chain back, if it comes next to that client.
        """
        if coalition.lying and (coalition.server or coalition.clients):
            kind = LEAD + "chain" if self.led_by == "client" else "chain"
            received = outcome.transcript.receivers(kind)
            others = frozenset(received) - coalition.clients
            return frozenset(frozenset({client}) for client in others)
        known = [*known_sums(outcome.transcript, coalition), outcome.included]
        return determined_sums(
            [tuple(name for name in names if name not in coalition.clients) for names in known]
        )
