"""The aggregator of masked updates, and who learns what from it."""

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from extensions.errors import ArgumentError
from extensions.rules import POSITIVE, Between, Whole, check_fields
from fl.masked.client import MaskedClient
from fl.masked.lanes import check_lanes, pack
from fl.masked.server import MaskedServer
from fl.masked.sparse.client import SparseClient
from fl.masked.sparse.degrees import Degree, SparseGraph
from fl.masked.sparse.leaks import sums_known
from fl.masked.sparse.server import SparseServer
from fl.masked.sparse.terms import SparseTerms
from fl.masked.terms import Terms
from fl.round.aggregator import Aggregator, Leaks, inherent_leaks
from fl.round.identities import FreshIdentities, Identities
from fl.round.machines import Machine, Round, Vector
from fl.round.messages import SERVER
from fl.round.quantization import FixedPoint
from fl.round.view import Coalition, Outcome

DEFAULT = FixedPoint()
_THRESHOLD = Between(0.5, 1.0, below=True, hint="With less, a lying server could learn an update.")


@dataclass(kw_only=True, eq=False, repr=False)
class MaskedAggregator(Aggregator):
    """Sums updates under double masks: the server learns only the weighted sum.

    Every pair of clients agrees on a mask, which one adds and the other subtracts. Each client adds
    one more mask of its own. Any t of the round's n clients have secret shares of both, so they can
    replace a client that drops out, at any stage. Clients compute t = floor(threshold n) + 1
    themselves, where n counts those who take part. In a run n is at least the cohort of its
    settings, so a server that invites few clients keeps the same t.

    | message | from | holds |
    | --- | --- | --- |
    | advertise | client | public keys for masks and for shares, commitment to its seed, signature |
    | keys | server | the advertisements of all who sent one |
    | shares | client | a share of its mask key and one of its seed for each client, sealed |
    | sealed | server | the sealed shares for this client |
    | masked | client | masked update in Z_2^bits; clients whose shares it cannot open |
    | survivors | server | clients whose masked values are in the sum |
    | consent | client | its signature under that list |
    | consents | server | the signatures of all who sent one |
    | unmask | client | the keys of one share of each dealer |

    Guarantees:
        With fewer than t clients on its side, the server learns only the sum over `included` of
        honest clients' updates (`leaks_to`). Clients without the server learn what the next model
        shows. The sum is exact. Keys come from the operating system and serve for one round. For
        each client the server gets either its seed or its mask key: clients open shares of a
        survivor's seed, and of another client's mask key.

    - *A server that follows the protocol*, or somebody who reads all messages: covered.
    - *A server that tells clients different lists of survivors*, to get both secrets of a client:
      clients open shares only after t of them signed the same list. Two such lists take at least
      2t - n clients who lie with the server, which is n / 3 with the default threshold.
    - *A server that sends clients different models or weights*, so that the sum is one client's
      update: every signature covers a digest of the model, the run's settings and all weights, so
      only clients with equal ones are in one sum. Each client rejects a wrong weight of its own.
    - *A server that invites few clients, or mostly those who lie with it*: a run's clients reject a
      round of fewer than t of the cohort, or of fewer than `min_clients`. With `colluders`, c, they
      also reject one in which 2t <= n + c or t < c + 2, so a sum has at least two honest clients.
      c counts in the whole population, because a server may choose whom it invites.
    - *A server that puts keys of its own in place of the clients'*: their advertisements are
      signed. To echo the list of survivors would stop neither attack, and nor would keys that were
      agreed in the same round.
    - *A server that lies about who dropped out* still gets a sum of at least t clients.
    - *Outside the guarantee*: clients that send false values, or mask them with other keys, spoil
      the sum unnoticed. A client that deals false shares can end the round, and is named. A client
      that opens a false share is left out by name; the round goes on while t right shares of every
      client are left.

    With `graph` a client has keys with only some of the others, in rounds in which that saves a
    third of them. `SparseGraph` says how, what then holds against whom, and what it costs.

    The signing keys stand for a public-key infrastructure. Unless you give `identities`, this
    object makes each client's key once. A client's machine gets its own private key and all public
    ones.

    Cost:
        Five messages from each client to the server and four back, one after the other. Take a
        round of n < 64 clients, all present, with numbers below 128, and d values whose count takes
        L bytes in LEB128. Then a client sends 130 n + d bits / 8 + L + 376 bytes and gets
        282 n + 72 t + 171.

        A client expands n masks of d values. The server expands one for each survivor, and as many
        again for each client that dropped out after it dealt shares. It keeps only the sum of the
        values that arrive. A client verifies n + t signatures, the server 2 n; machines that one
        object makes in one process do so once for all of them.

    Args:
        threshold: share of a round's clients, at least 1/2: t is the next whole number above.
        fixed_point: how updates become integers; 64 bits, 24 behind the point, unless given.
        timeout: seconds that clients have in each stage.
        min_clients: fewest clients of a round, which clients check, too.
        colluders: number of all clients that may lie with the server; PEA rejects a round that
            could not withstand them.
        graph: a sparse graph; None: all clients have keys with all.
        lanes: values in one element of the ring, which saves that many times the bytes of values
            and masks. A round's sum has to fit in bits / lanes bits.
        identities: the keys that clients sign with, such as those of a `KeyFolder`.

    Raises:
        ArgumentError: a threshold below 1/2, for which two lists of survivors could be signed;
            fewer than 2 clients, colluders below 0, or lanes too narrow for a sum.

    Source:
        Bonawitz et al., CCS 2017, Figure 4.

    Deviation:
        shares of both secrets are sealed with keys of their own, and a client opens one by telling
        the server its key, which shows at once whether the share is what was dealt. Signatures
        under advertisements cover the terms of the round, those under survivors all keys as well,
        so that clients who were told different things refuse each other. A client deals itself a
        share.

    Examples:
        >>> updates = {k: np.full(2, float(k)) for k in range(5)}
        >>> masked = fl.MaskedAggregator()
        >>> outcome = fl.protocols.aggregate(masked, updates)
        >>> outcome.aggregate.mean.tolist()
        [2.0, 2.0]
        >>> masked.leaks_to(fl.Coalition(server=True), outcome)
        frozenset({frozenset({0, 1, 2, 3, 4})})
    """

    signs = True

    threshold: Annotated[float, _THRESHOLD] = 2 / 3
    fixed_point: FixedPoint = DEFAULT
    timeout: Annotated[float, POSITIVE] = 60.0
    min_clients: Annotated[int, Whole(2)] = 2
    colluders: Annotated[int, Whole(0)] = 0
    graph: SparseGraph | None = None
    lanes: int = 1
    identities: Identities = field(default_factory=FreshIdentities)
    _latest: Terms | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_fields(self)
        check_lanes([1], self.fixed_point, self.lanes)

    def parameters(self) -> dict[str, Any]:
        return {
            **super().parameters(),
            "threshold": self.threshold,
            "colluders": self.colluders,
            "graph": None if self.graph is None else asdict(self.graph),
            "lanes": self.lanes,
        }

    def needed(self, clients: int) -> int:
        """Returns t: how many clients of a round of this size must stay to its end."""
        return min(clients, math.floor(self.threshold * clients + 1e-9) + 1)

    def fewest(self, cohort: int) -> int:
        """Returns t of the cohort, or `min_clients` if that is more."""
        return max(self.min_clients, self.needed(cohort))

    def honest(self, cohort: int) -> int:
        """Returns t of the cohort, less the colluders; on a sparse graph see `SparseGraph`."""
        staying, sided = self.needed(cohort), self.siding(cohort)
        return self.graph.least(sided, staying) if self.graph else staying - sided

    def siding(self, clients: int) -> int:
        return max(self.colluders, self.graph.corrupted(clients) if self.graph else 0)

    def check_round(self, round: Round) -> None:
        super().check_round(round)
        clients, t = len(round.weights), self.needed(_size(round))
        most = _withstood(clients, t)
        if (siding := self.siding(_size(round))) > most:
            rule = f"at most {most} in a round of {clients} clients, of which {t} must stay"
            hint = "Use more clients, or a higher {threshold}."
            if self.graph is None or siding == self.colluders:
                raise ArgumentError("colluders", siding, rule, hint, code="range")
            rule = f"a share of {rule}"
            raise ArgumentError("corrupt", self.graph.corrupt, rule, hint, code="range")

    def check_weights(self, weights: Collection[int]) -> None:
        super().check_weights(weights)
        check_lanes(weights, self.fixed_point, self.lanes)

    def server(self, round: Round) -> Machine:
        terms = self._terms(round)
        if isinstance(terms, SparseTerms):
            return SparseServer(terms, self.timeout)
        return MaskedServer(terms, self.timeout)

    def client(self, round: Round, client: int, update: Vector) -> Machine:
        values = pack(self.fixed_point.encode(update, round.weights[client]), self.lanes)
        terms, identity = self._terms(round), self.identities.signer(client)
        if isinstance(terms, SparseTerms):
            return SparseClient(terms, client, values, identity)
        return MaskedClient(terms, client, values, identity)

    def leaks_to(self, coalition: Coalition, outcome: Outcome) -> Leaks:
        """Returns every single client to the server with t holders of shares, else the sum alone.

        Such a coalition unmasks every update that arrived, also one that came too late. If it lies,
        2t - n clients are enough, or t - 1, who leave one honest client in the sum.
        """
        if not coalition.server:
            return inherent_leaks(coalition, outcome.included)
        transcript = outcome.transcript
        first = transcript.received(outcome.included[0], "keys")[0]
        if "threshold" not in first.body:
            return self._sparsely(coalition, outcome, first.integer("needed"))
        holders = [c for c in coalition.clients if transcript.received(c, "sealed")]
        threshold, clients = first.integer("threshold"), first.clients("clients")
        most = _withstood(len(clients), threshold) if coalition.lying else threshold - 1
        if len(holders) <= most:
            return inherent_leaks(coalition, outcome.included)
        return _all_that_came(coalition, outcome)

    def _sparsely(self, coalition: Coalition, outcome: Outcome, needed: int) -> Leaks:
        if not coalition.lying:
            return sums_known(coalition, outcome, needed)
        most = self.siding(len(outcome.transcript.receivers("keys")))
        if len(coalition.clients) <= most:
            return inherent_leaks(coalition, outcome.included)
        return _all_that_came(coalition, outcome)

    def _degree(self, round: Round) -> Degree | None:
        if self.graph is None:
            return None
        cohort, clients = _size(round), len(round.weights)
        siding = min(self.siding(cohort), clients - 1)
        return self.graph.degree(clients, cohort, siding, self.needed(cohort))

    def _terms(self, round: Round) -> Terms:
        """Returns the terms of the round, which all its machines that this object makes share."""
        stated = (round, self.needed(_size(round)), self.fixed_point)
        last = self._latest
        if last is None or (last.round, last.threshold, last.fixed_point) != stated:
            known = self.identities
            public = {client: known.verifier(client) for client in round.clients}
            kept: dict[str, Any] = {"lanes": self.lanes, "signature_bytes": known.signature_bytes}
            degree = self._degree(round)
            one = Terms(*stated, public, **kept)
            last = one if degree is None else SparseTerms(*stated, public, degree, **kept)
            self._latest = last
        return last

    def identify(self, identities: Identities) -> None:
        self.identities, self._latest = identities, None


def _size(round: Round) -> int:
    """Returns the clients of the round, or of the cohort that settings select if that is more."""
    return max(len(round.weights), 0 if round.plan is None else round.plan.cohort)


def _all_that_came(coalition: Coalition, outcome: Outcome) -> Leaks:
    senders = {message.sender for message in outcome.transcript.received(SERVER, "masked")}
    return frozenset(frozenset({client}) for client in senders - coalition.clients)


def _withstood(clients: int, threshold: int) -> int:
    """Returns how many clients may lie with the server: c < 2t - n, and c <= t - 2."""
    return max(0, min(2 * threshold - clients - 1, threshold - 2))
