"""One privacy ledger a client: what each spent, where the costs of clients do not add up."""

import json
import math
from dataclasses import asdict

import numpy as np

from extensions.errors import ArgumentError
from extensions.printing import table
from extensions.privacy.accounting import Charge, GaussianPhase, Ledger, Neighbours


class ClientLedger(Ledger):
    """The ledger of one client.

    Releases with delta 0, all of one epsilon and with nothing else in the ledger, are composed as
    tightly as is known for them (`composed_epsilon`), and not by adding their epsilons.
    """

    def get_epsilon(
        self, delta: float, accountant: str = "pld", *, neighbours: Neighbours = "add-remove"
    ) -> float:
        """As `Ledger.get_epsilon`; accountant="rdp" adds the epsilons of releases, at delta 0."""
        added = super().get_epsilon(delta, accountant, neighbours=neighbours)
        charges = [phase for phase in self.phases if isinstance(phase, Charge)]
        costs = {charge.cost(neighbours) for charge in charges}
        alone = len(charges) == len(self.phases) > 1
        if accountant != "pld" or not alone or len(costs) != 1:
            return added
        ((epsilon, spent),) = costs
        return added if spent else min(added, composed_epsilon(epsilon, len(charges), delta))


class ClientLedgers:
    """Keeps a ledger for each client, by number.

    Guarantees:
        All releases about client k are (of(k).get_epsilon(delta), delta)-private. The mechanism
        says for which neighbours: two data sets of client k, or with and without client k. Each
        client has its own records, so the largest epsilon bounds the run.

    Examples:
        >>> ledgers = fl.protocols.ClientLedgers()
        >>> ledgers.get_epsilon(1e-5)
        0.0
    """

    def __init__(self) -> None:
        self._ledgers: dict[int, ClientLedger] = {}

    def __repr__(self) -> str:
        rows = ({"client": k, **asdict(phase)} for k in self.clients for phase in self.of(k).phases)
        return table(f"Ledgers of {len(self.clients)} clients", [*rows])

    @property
    def clients(self) -> tuple[int, ...]:
        """Clients that have a ledger, in ascending order."""
        return tuple(sorted(self._ledgers))

    @property
    def phases(self) -> tuple[GaussianPhase | Charge, ...]:
        """What was released of any client, in the order of the clients."""
        return tuple(phase for k in self.clients for phase in self._ledgers[k].phases)

    def of(self, client: int) -> ClientLedger:
        """Returns the ledger of a client, an empty one where it has spent nothing yet."""
        return self._ledgers.setdefault(client, ClientLedger())

    def get_epsilon(self, delta: float, accountant: str = "pld") -> float:
        """Returns the largest epsilon of any client; 0 if none has spent anything.

        Raises:
            ArgumentError: as `Ledger.get_epsilon`.
        """
        distinct = {ledger.phases: ledger for ledger in self._ledgers.values()}
        costs = [ledger.get_epsilon(delta, accountant) for ledger in distinct.values()]
        return max(costs, default=0.0)

    def to_json(self) -> str:
        """Returns the ledgers as JSON text, from which `from_json` makes equal ones."""
        return json.dumps({str(k): json.loads(self.of(k).to_json()) for k in self.clients})

    @classmethod
    def from_json(cls, text: str) -> "ClientLedgers":
        """Returns the ledgers that `to_json` wrote.

        Raises:
            ArgumentError: the text is none of them.
        """
        ledgers = cls()
        try:
            for client, entry in json.loads(text).items():
                ledgers._ledgers[int(client)] = ClientLedger.from_json(json.dumps(entry))
        except ArgumentError:
            raise
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            rule = "what ClientLedgers.to_json wrote"
            raise ArgumentError("text", text[:80], rule, code="file") from error
        return ledgers


_ROUNDING = 1e-7
"""Relative error of the probabilities below, which is taken off delta, and of the result."""


def composed_epsilon(epsilon: float, releases: int, delta: float) -> float:
    """Returns the epsilon, at this delta, of so many releases each of which has delta 0.

    Each release tells at most as much as one bit that is right with probability
    e^epsilon / (1 + e^epsilon), whatever the mechanism and whatever it learnt of earlier ones; the
    sum of the losses of such bits is binomial.

    Guarantees:
        An upper bound, within 1e-6 (relative) of the least that holds for all such mechanisms; for
        at most 10^7 releases.

    Source:
        Kairouz, Oh and Viswanath, ICML 2015, Theorem 3.3.
    """
    from scipy.special import gammaln

    right = np.arange(releases + 1.0)
    wrong = releases - right
    logs = gammaln(releases + 1) - gammaln(right + 1) - gammaln(wrong + 1)
    logs -= releases * math.log1p(math.exp(-epsilon)) + wrong * epsilon
    losses = epsilon * (right - wrong)

    def exceeds(bound: float) -> bool:
        above = losses > bound
        spent = -np.expm1(bound - losses[above]) * np.exp(logs[above])
        return float(np.sum(spent)) > delta * (1 - _ROUNDING)

    low, high = 0.0, releases * epsilon
    while high - low > _ROUNDING * high:
        middle = (low + high) / 2
        if exceeds(middle):
            low = middle
        else:
            high = middle
    return high
