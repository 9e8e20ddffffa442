"""How many neighbours a client needs, and how many of their shares, so that nothing goes wrong.

Three things could, of which the first two would show more than the sum:

- t of a client's neighbours are corrupt, and have both of its secrets;
- a small set of honest clients has masks with nobody else, and so a sum of its own;
- fewer than t of a client's neighbours remain, and the round fails.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, lgamma, log2
from typing import Annotated

from extensions.errors import ArgumentError
from extensions.rules import Between, check_fields

SECURITY = 41
"""Bits of each of the two failures that show more than the sum: 2^-40 in all."""
CORRECTNESS = 20
"""Bits of a round that fails although no more than the stated share of clients dropped out."""
PART = 0.95
"""Share of the honest clients who must stay that is in every sum a lying server can get."""
SAVES = 2 / 3
"""Share of the other clients, at most, with which a client has keys; else all have with all."""
_LESS_THAN_HALF = Between(0.0, 0.5, below=True)


@dataclass(frozen=True, kw_only=True)
class Degree:
    """The neighbours of a client in one round.

    Attributes:
        neighbours: k, how many a client draws; it has keys with those who draw it as well.
        needed: t, of the shares that a client deals to these.
    """

    neighbours: int
    needed: int


@dataclass(frozen=True, kw_only=True)
class SparseGraph:
    """Lets each client share keys with few others, which saves bytes in large rounds.

    Each of a round's n clients has shares and masks with k neighbours, and t of these can replace
    it. k is the least that exact tails allow. If that means keys with more than two thirds of the
    others, all clients have keys with all.

    Guarantees:
        Take a server, even a lying one, with `corrupt` of the clients on its side. Whoever drops
        out, it only learns the sum of those who are left, except with probability 2^-40. A round
        that loses `dropping` of the clients fails with probability 2^-20, whatever the graph. A
        round with fewer clients than the aggregator's threshold fails.

        Each client draws its k holders itself, and also has masks with those who drew it. As many
        clients as the aggregator's threshold sign one pair of lists: who dealt shares, and who
        survived. They sign under the root of a tree that contains their own keys, so there is only
        one such pair. Before a holder opens a share of a survivor's seed, it checks the survivor's
        tag under the key of the two. The tag shows that the survivor has masks with this holder,
        and with all that it drew who dealt shares. So a sum contains, with every client, that
        client's holders, and the graph has only large sets of that kind, whomever the server calls
        lost. The honest clients in a sum are at least 95 % of the threshold less the corrupt ones
        (`least`).

    Cost:
        Take clients with numbers below 64, d values whose count takes L bytes in LEB128, and a
        threshold of T. A client with r neighbours, of whom q drew it, sends
        130 k + 32 q + ceil(n / 8) + d bits / 8 + L + 409 bytes. It gets
        169 r + 130 q + 64 T + 32 ceil(log2 n) + 3 ceil(n / 8) + 211 bytes, verifies r + T
        signatures and expands r + 1 masks. With 1,000 clients, 10 % corrupt and 20 % dropping, k is
        73 and r 141.

    Attributes:
        corrupt: largest share of a round's clients that sided with the server before the graph was
            drawn.
        dropping: largest share of a round's clients that may drop out, whatever the graph.

    Raises:
        ArgumentError: an argument outside its range.

    Source:
        Bell et al., CCS 2020, Algorithms 2 and 3.

    Deviation:
        all consent to one list, as in Bonawitz et al., CCS 2017; with Bell et al. neighbours check
        each other. That costs 64 T bytes, makes sums larger, and makes k a quarter of theirs: 99
        instead of 414, with 1,000 clients, 10 % corrupt and 30 % gone. Tags are keyed, and theirs
        are signed.

    Examples:
        >>> masked = fl.MaskedAggregator(graph=fl.SparseGraph(corrupt=0.1, dropping=0.2))
        >>> masked.graph
        SparseGraph(corrupt=0.1, dropping=0.2)
    """

    corrupt: Annotated[float, _LESS_THAN_HALF] = 0.1
    dropping: Annotated[float, _LESS_THAN_HALF] = 0.2

    def __post_init__(self) -> None:
        check_fields(self)

    def corrupted(self, clients: int) -> int:
        """Returns how many of so many clients side with the server, at most."""
        return math.ceil(self.corrupt * clients - 1e-9)

    def least(self, corrupted: int, staying: int) -> int:
        """Returns how many honest clients are in every sum that a lying server can get, at least.

        Args:
            corrupted: clients that side with it, at most.
            staying: fewest clients in a sum.
        """
        return math.ceil(PART * (staying - corrupted))

    def degree(self, clients: int, cohort: int, corrupted: int, staying: int) -> Degree | None:
        """Returns the fewest neighbours with which a round is safe; None: all, which costs little.

        Failures that show more than the sum have probability 2^-40 in all, whoever drops out. A
        round from which `dropping` of the cohort drop out fails with 2^-20.

        Args:
            clients: n, that the round begins with.
            cohort: that were to take part, n or more; those who are missing have dropped out.
            corrupted: of the clients, at most.
            staying: fewest clients in the sum; rounds with fewer fail.

        Raises:
            ArgumentError: fewer would stay than have to, if so many drop out.
        """
        left = cohort - math.floor(self.dropping * cohort + 1e-9)
        if left < staying:
            rule = f"at most {cohort - staying} of {cohort} clients, of which {staying} must stay"
            hint = "Or lower the {threshold}."
            raise ArgumentError("dropping", self.dropping, rule, hint, code="range")
        return _degree(clients, corrupted, staying, max(0, clients - left))


@lru_cache(maxsize=64)
def _degree(clients: int, corrupt: int, staying: int, lost: int) -> Degree | None:
    others, honest = clients - 1, clients - corrupt
    for k in range(2, clients):
        if _met(k, others) > SAVES * others:
            return None
        draws = comb(others, k)
        sided = ways(others, min(corrupt, others), k)
        present = ways(others, others - lost, k)
        safe = max(2, rare_from(sided, draws // (honest << SECURITY)))
        most = rare_below(present, draws // (clients << CORRECTNESS))
        if safe <= most and _large(k, clients, corrupt, staying, most - safe + 1):
            return Degree(neighbours=k, needed=most)
    return None


def _met(k: int, others: int) -> float:
    """Returns how many others a client has keys with, in the mean: drawn, or drawing it."""
    return others * (1 - (1 - k / others) ** 2)


def _large(k: int, clients: int, corrupt: int, staying: int, within: int) -> bool:
    """Returns whether no small set of honest clients exists whose sum can come out.

    Whoever is in it has at least `within` of those that it drew in it as well, and all others that
    it drew are corrupt or among the `clients - staying` that a server says have dropped out, as
    it likes, when it knows the graph. The expected number of such sets, of all sizes below the
    share `PART`, is at most 2^-41.
    """
    sizes = range(within + 1, math.ceil(PART * (staying - corrupt)))
    logs = (min(_logs(size, k, clients, corrupt, staying, within)) for size in sizes)
    expected: float = sum(2.0 ** min(0.0, log) for log in logs)
    return expected <= 2.0**-SECURITY


def _logs(
    size: int, k: int, clients: int, corrupt: int, staying: int, within: int
) -> Iterator[float]:
    """Yields two bounds of the logarithm of the expected number of such sets of one size.

    Of honest clients outside the set, `staying - corrupt - size` or more were drawn by none in it:
    the first bound is Chernoff's, since to be drawn are negatively associated events; the second
    adds up all choices of these.
    """
    others, honest = clients - 1, clients - corrupt
    outside, missed = honest - size, staying - corrupt - size
    sets, inside = _log_comb(honest, size), 0.0
    if size < 10 * within:
        draws = sum(ways(others, size - 1, k)[within:])
        inside = log2(draws) - log2(comb(others, k)) if draws else -math.inf
    expected, share = (1 - k / others) ** size, missed / outside
    apart = outside * _divergence(share, expected) if share > expected else 0.0
    yield sets + size * inside - apart
    avoiding = _log_comb(others - missed, k) - _log_comb(others, k)
    yield sets + _log_comb(outside, missed) + size * avoiding


def _log_comb(n: int, k: int) -> float:
    """Returns the logarithm of a binomial coefficient, to 1e-9 for n up to 10^6."""
    if not 0 <= k <= n:
        return -math.inf
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / math.log(2)


def _divergence(a: float, b: float) -> float:
    """Returns the divergence of two coins in bits, for a in (0, 1] and b in (0, 1)."""
    rest = (1 - a) * log2((1 - a) / (1 - b)) if a < 1 else 0.0
    return a * log2(a / b) + rest


def ways(population: int, marked: int, drawn: int) -> list[int]:
    """Returns the numbers of draws without replacement that have 0, 1, ..., `drawn` marked ones."""
    rest = population - marked
    return [comb(marked, x) * comb(rest, drawn - x) for x in range(drawn + 1)]


def rare_from(numbers: Sequence[int], most: int) -> int:
    """Returns the least x such that at most `most` draws have x marked ones or more."""
    total = 0
    for x in range(len(numbers), 0, -1):
        total += numbers[x - 1]
        if total > most:
            return x
    return 0


def rare_below(numbers: Sequence[int], most: int) -> int:
    """Returns the largest x such that at most `most` draws have fewer than x marked ones."""
    total = 0
    for x, number in enumerate(numbers):
        total += number
        if total > most:
            return x
    return len(numbers)
