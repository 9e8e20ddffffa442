"""Chained aggregation: a masked sum goes from client to client, and comes back to the server."""

from collections.abc import Mapping

from extensions.checks import check_positive
from extensions.errors import ArgumentError
from fl.chain.client import ChainClient, Neighbours
from fl.chain.edge import ChainEdge
from fl.chain.equations import known_sums
from fl.chain.server import ChainServer
from fl.privacy.quantization import FixedPoint
from fl.round.aggregator import Aggregator, Leaks
from fl.round.determined import determined_sums
from fl.round.machines import Machine, Round, Vector
from fl.round.messages import SERVER, Party
from fl.round.view import Coalition, Outcome


class ChainAggregator(Aggregator):
    """Federated averaging over chains of clients, each of which adds to a sum under a mask.

    The server draws a mask r, uniform in the ring, and sends it in a token to a random client. With
    x_i the encoded update of the i-th client times its weight, modulo 2^bits (5)-(8):

        s_1 = r + x_1,  s_i = s_(i-1) + x_i,  sum of all x = s_n - r,  mean = sum / sum of weights.

    Each holder hands the token to a random neighbour that it has not visited yet; the last one, or
    the holder when time is up, returns it, but never with fewer than two clients in it. Clients
    that a chain does not reach are left out by name.

    Guarantees:
        The mean is exact to the fixed point for the clients in `included`, each counted once,
        whoever drops out. One client alone sees uniform values, whatever the updates, the first one
        the mask itself. Two clients together know the sum of those between them: the neighbours of
        one on the chain know its update. The server counts as both ends of the chain: with the
        second client it knows the first one's update, with the last but one the last one's. So does
        who reads the links on both sides of a client: they need TLS. `leaks_to` derives it from the
        views.

    **Drop-out.** The server hears of every hop. A chain of which it hears nothing within `timeout`
    goes back to the last good hop, whose client hands its sum to another; without one, the chain
    begins anew under a new mask. A client that is slow rather than gone may thereby show a second
    sum to those after it, or to the server: then they know the difference, and `leaks_to` says so.

    Authenticity:
        Every message with a sum has an HMAC-SHA256 under a key of its round and link, which the
        server hands out. It binds round, chain, hop and values, so that nobody but the last holder
        and the server can make the token that the next one accepts, and only once. Its terms are
        compared with what the server told everybody, its path with the word of those on it: a
        holder that forges them is named, and the chain goes on from the last good hop. It does not
        hold against the server, which knows all keys, nor show that a holder added a true update,
        did not pass a new token off as one of an older attempt, or tells the truth of the token
        that it got.

    Cost:
        n + 1 sums of size * bits / 8 bytes a chain, in as many rounds; 64 bytes of keys for each
        pair of clients of a chain, twice; short word to the server of every hop.

    Args:
        fixed_point: how updates become ring elements.
        chains: number of chains; the server deals clients to them at random, evenly.
        edges: number of edge nodes, which merge the sums of their chains so that the server sees
            the totals alone. None: the server merges, and sees the sum of every chain.
        neighbours: from a client to those that it can reach; all unless given.
        time_limit: seconds after which a holder returns the token.
        timeout: seconds that the server waits for word of a token. At least the time of two hops,
            else clients are taken for lost that are not.

    Raises:
        ArgumentError: an argument outside its range.

    Source:
        Li et al., "Privacy-Preserving Federated Learning Framework Based on Chained Secure
        Multiparty Computing", IEEE IoT J. 8(8), 2021.

    Deviation:
        Masks are uniform in a ring, not floating-point numbers; word to the server, tags and
        reissued tokens are additions. The paper's "eps -> 0" does not hold: the exact sum is given
        away, which is no differential privacy.
    """

    def __init__(
        self,
        fixed_point: FixedPoint | None = None,
        *,
        chains: int = 1,
        edges: int = 0,
        neighbours: Neighbours | None = None,
        time_limit: float = 600.0,
        timeout: float = 60.0,
    ) -> None:
        if chains < 1:
            raise ArgumentError("chains", chains, "at least 1")
        if not 0 <= edges <= chains:
            raise ArgumentError("edges", edges, f"in 0..{chains}", "Each needs a chain.")
        check_positive("time_limit", time_limit)
        check_positive("timeout", timeout)
        self.fixed_point: FixedPoint = fixed_point or FixedPoint()
        self.chains = chains
        self.edges = tuple(SERVER - 1 - edge for edge in range(edges))
        self.neighbours = neighbours
        self.time_limit = time_limit
        self.timeout = timeout
        self.min_clients = 2 * chains

    def server(self, round: Round) -> Machine:
        """Returns the machine that draws the masks and follows the tokens."""
        return ChainServer(
            round, self.fixed_point, self.chains, self.edges, self.time_limit, self.timeout
        )

    def client(self, round: Round, client: int, update: Vector) -> Machine:
        """Returns the machine that adds the update to the token."""
        encoded = self.fixed_point.encode(update, round.weights[client])
        return ChainClient(round, client, encoded, self.neighbours)

    def others(self, round: Round) -> Mapping[Party, Machine]:
        """Returns the edge nodes, parties -2, -3, ..."""
        return {edge: ChainEdge(round, edge, self.fixed_point.dtype) for edge in self.edges}

    def leaks_to(self, coalition: Coalition, outcome: Outcome) -> Leaks:
        """Returns the smallest sets whose sums follow from the sums that the coalition saw.

        Every token is an equation: its values are the mask plus the updates of its users. With the
        mean, and without the members' own updates, these are solved for sums without masks.
        """
        known = [*known_sums(outcome.transcript, coalition), outcome.included]
        return determined_sums(
            [tuple(name for name in names if name not in coalition.clients) for names in known]
        )
