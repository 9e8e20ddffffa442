"""Means that a minority of clients cannot move far; for them the server reads every update."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from extensions.rules import Between, Whole, one_of
from fl.plain import PlainAggregator, PlainServer, Update
from fl.round.machines import Machine, Round, Vector

Rule = Literal["median", "trimmed", "krum"]
Updates = npt.NDArray[np.float64]
"""Of all clients that take part, (clients, size)."""

BLOCK = 1 << 16
"""Values of an update that are sorted at a time."""


class RobustAggregator(PlainAggregator):
    """Averages updates by a rule that withstands some malicious clients.

    **Insecure**: the server reads every client's update, because these rules compare single
    updates. Masks would hide them. Under masks, clipping such as `CentralDP`'s bounds honest
    clients only; to bound others takes zero-knowledge proofs (Lycklama et al., S&P 2023), which
    PEA does not have.

    Guarantees:
        All clients count alike, however many records they have: these are the clients' own words.
        With "median" and "trimmed" each value of the mean is between values of honest clients. With
        "krum" the mean is of updates that have close neighbours. None protects from an attack that
        stays within the spread of honest updates, as a backdoor may.

    Cost:
        Messages of `PlainAggregator`. The server sorts n updates of d values, O(d n log n), or
        compares all pairs, O(d n^2) ("krum"), and has them all in memory.

    Args:
        rule: "median" of each value; "trimmed": mean of each value without its largest and
            smallest; "krum": mean of the updates that are closest to their neighbours (multi-Krum).
        attackers: largest share of clients that may send anything; "trimmed" cuts it on each side.
        timeout: seconds that the server waits for updates; then it goes on with those it has.

    Raises:
        ArgumentError: an unknown rule or a share outside [0, 0.5); in a run, too few clients for
            "krum", which needs 2 f + 3 of which f attack.

    Source:
        Yin et al., ICML 2018 (median, trimmed); Blanchard et al., NeurIPS 2017 (Krum).

    Examples:
        >>> updates = {k: np.array([1.0, 2.0]) for k in range(4)} | {4: np.array([1e6, -1e6])}
        >>> outcome = fl.protocols.aggregate(fl.RobustAggregator(rule="median"), updates)
        >>> outcome.aggregate.mean.tolist()
        [1.0, 2.0]
    """

    def __init__(
        self, *, rule: Rule = "trimmed", attackers: float = 0.2, timeout: float = 60.0
    ) -> None:
        super().__init__(timeout=timeout)
        one_of(RULES).check("rule", rule)
        Between(0.0, 0.5, below=True).check("attackers", attackers)
        self.rule, self.attackers = rule, attackers
        self.min_clients = 2 if rule != "krum" else 3

    def parameters(self) -> dict[str, Any]:
        """Returns the arguments by which the mean is found."""
        return {**super().parameters(), "rule": self.rule, "attackers": self.attackers}

    def most(self, clients: int) -> int:
        """Returns how many of so many clients may send anything."""
        return math.floor(self.attackers * clients + 1e-9)

    def check_weights(self, weights: Collection[int]) -> None:
        """As `Aggregator.check_weights`; "krum" needs more than twice the attackers."""
        super().check_weights(weights)
        if self.rule == "krum":
            check_krum(len(weights), self.most(len(weights)))

    def server(self, round: Round) -> Machine:
        """Returns the machine that waits for all updates and takes their robust mean."""
        return PlainServer(round, self.timeout, self._mean)

    def _mean(self, updates: Sequence[Update], weights: Vector) -> Vector:
        self.check_weights(weights.astype(int).tolist())  # of those who are left
        every = np.stack(updates).astype(np.float64)
        return RULES[self.rule](every, self.most(len(every)))


def _by_value(updates: Updates, of: Callable[[Updates], Vector]) -> Vector:
    """Returns a function of each column, a block of columns at a time."""
    blocks = range(0, updates.shape[1], BLOCK)
    return np.concatenate([of(updates[:, k : k + BLOCK]) for k in blocks])


def median(updates: Updates, attackers: int = 0) -> Vector:
    """Returns the median of each value, (size,); `attackers` may be any minority."""
    return _by_value(updates, lambda block: np.median(block, axis=0))


def trimmed_mean(updates: Updates, attackers: int) -> Vector:
    """Returns the mean of each value without so many of the largest and smallest, (size,)."""
    kept = slice(attackers, len(updates) - attackers)
    return _by_value(updates, lambda block: np.sort(block, axis=0)[kept].mean(axis=0))


def check_krum(clients: int, attackers: int) -> None:
    """Checks that so many clients are more than twice the attackers, by three."""
    hint = "Raise {client_fraction}, or lower {attackers}."
    Whole(2 * attackers + 3).check("clients of a round", clients, hint)


def multi_krum(updates: Updates, attackers: int) -> Vector:
    """Returns the mean of the n - f updates that are closest to n - f - 2 others, (size,).

    Args:
        updates: of n clients.
        attackers: f, with n of at least 2 f + 3.

    Raises:
        ArgumentError: fewer clients.
    """
    n = len(updates)
    check_krum(n, attackers)
    centred = updates - updates.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    apart = squares[:, None] + squares - 2.0 * centred @ centred.T
    np.fill_diagonal(apart, np.inf)
    near = np.sort(np.maximum(apart, 0.0), axis=1)[:, : n - attackers - 2]
    closest = np.argsort(near.sum(axis=1), kind="stable")[: n - attackers]
    mean: Vector = updates[np.sort(closest)].mean(axis=0)
    return mean


RULES: dict[Rule, Callable[[Updates, int], Vector]] = {
    "median": median,
    "trimmed": trimmed_mean,
    "krum": multi_krum,
}
