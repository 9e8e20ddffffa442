"""Differential privacy of clients without a trusted server: each adds a share of the noise."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.privacy.discrete import discrete_gaussian
from extensions.rules import POSITIVE, Whole, check_fields
from fl.privacy.clipping import NOISE_UNITS, bits_for, clip_to_grid
from fl.privacy.ledgers import ClientLedgers
from fl.privacy.mechanism import Mechanism
from fl.round.aggregator import Aggregator
from fl.round.machines import Round, Vector

_LEAVES = 2.0**-40
"""Probability, at most, that noise takes a client's values out of the aggregator's range."""


@dataclass(kw_only=True, eq=False, repr=False)
class DistributedDP(Mechanism):
    """Makes each round's sum private for every client, before the server receives it.

    Every client clips its update to norm C and adds Gaussian noise of variance (z C)^2 / (t - c)
    before the aggregator hides it. The server only learns sums of at least t clients. Of these, c
    may be on its side and subtract their noise, which leaves (z C)^2 or more. That holds whoever
    drops out, at any stage, without corrections.

    Trust:
        You trust t - c honest clients of a round; the server may lie if the aggregator withstands
        that. t and c are the aggregator's: with `MaskedAggregator` t is `needed(cohort)` and c is
        `colluders`. A run rejects aggregators without such a promise.

    Guarantees:
        `ledger.of(k)` composes the rounds in which client k was selected, for updates that are
        zeros instead; `neighbours="replace"` is for other updates. The server knows who takes part,
        so epsilon is that of `CentralDP(sampling="fixed")`. `epsilon_against` tells epsilon for
        other numbers of colluders and survivors. A round is charged before it begins.

        A training that raises an error counts as zeros, with the same noise, and so does an update
        with NaN or infinity. `UpdateError` withdraws the client, in public.

    Noise:
        Discrete, from the operating system's generator, in integers on a grid on which each share
        has a standard deviation of 2^10 units or more. The aggregator's fixed point carries that
        grid exactly, so rounding leaves the sensitivity as it is. Sums of discrete Gaussians are
        accounted as continuous ones; on such a grid the difference is below that of `CentralDP`.
        Sums stay in the ring: the range of the fixed point holds each client's part, and a round is
        rejected if n of them could leave it. A value is beyond the range with probability 2^-40 for
        each round and client; that client then withdraws.

    Cost:
        0 bytes and 0 rounds; 0.6 microseconds a value for each client. A sum of n clients has noise
        n / (t - c) times the variance that is needed: 1.4 with all 10 present, t = 7 and c = 0.

    Args:
        noise_multiplier: z, standard deviation over C of the noise that t - c clients add.
        clip: C, in L2.

    Raises:
        ArgumentError: an argument outside its range; where a run is made, a mechanism of another
            run, whose noise is in other shares.

    Source:
        Kairouz, Liu and Steinke, ICML 2021 (sums of discrete Gaussians under secure aggregation);
        shares sized for the most that may drop out.

    Examples:
        >>> private = fl.DistributedDP(noise_multiplier=1.0, clip=0.5)
        >>> run = fl.FederatedAveraging(
        ...     **setup, aggregator=fl.MaskedAggregator(), mechanism=private, client_fraction=0.5
        ... )
        >>> _ = run.fit(rounds=1)
        >>> 0 < run.get_epsilon(1e-3) < 20
        True
    """

    exchange = "delta"
    equal_weights = True
    parameters_only = True
    hides_updates = True
    noise_multiplier: Annotated[float, POSITIVE]
    clip: Annotated[float, POSITIVE] = 1.0
    ledger: ClientLedgers = field(default_factory=ClientLedgers, init=False)

    def __post_init__(self) -> None:
        check_fields(self)
        self._sharers = self._siding = self._taken = self._frac_bits = 0

    def parameters(self) -> dict[str, Any]:
        given = {"noise_multiplier": self.noise_multiplier, "clip": self.clip}
        return {**given, "sharers": self._sharers, "siding": self._siding}

    @property
    def share(self) -> float:
        """Standard deviation of the noise that each client adds, in a run that was made."""
        return self.noise_multiplier * self.clip / math.sqrt(self._sharers)

    def check_aggregator(self, aggregator: Aggregator, size: int, cohort: int) -> None:
        if self._taken not in (0, aggregator.honest(cohort)):
            rule = f"a new one: it is in a run in which {self._taken} clients add its noise"
            hint = "Make one for each run."
            raise ArgumentError("mechanism", type(self).__name__, rule, hint)
        self._sharers, grid = aggregator.honest(cohort), aggregator.fixed_point
        if self._sharers < 1 or grid is None:
            rule = "an aggregator whose server learns only sums of many clients"
            hint = (
                "Use MaskedAggregator without a graph. If the server adds the noise, use CentralDP."
            )
            raise ArgumentError("aggregator", type(aggregator).__name__, rule, hint)
        self._frac_bits = bits_for(self.share, NOISE_UNITS)
        most = math.floor(grid.bits - 2 - math.log2(grid.clip) - math.log2(cohort))
        if self._frac_bits > most:
            least = 1.01 * math.ldexp(NOISE_UNITS * self.clip / self.share, -most)
            rule = f"at least {least:.3g}, for noise on a grid of {most} fractional bits"
            hint = "Or raise {noise_multiplier}, or narrow the range."
            raise ArgumentError("clip", self.clip, rule, hint, code="range")
        noise = f"noise of deviation {self.share:.3g} a client"
        if self._frac_bits > grid.frac_bits:
            rule = f"at least {self._frac_bits} for {noise}"
            raise ArgumentError("frac_bits", grid.frac_bits, rule, "Or raise {clip}.", code="range")
        if self._leaves(grid.clip, size) > _LEAVES:
            enough = 2.0 ** math.ceil(math.log2(grid.clip))
            while self._leaves(enough, size) > _LEAVES:
                enough *= 2
            rule, hint = f"at least {enough:g} with {noise}", "Widen that of the fixed point."
            raise ArgumentError("fixed_point.clip", grid.clip, rule, hint, code="range")
        self._taken, self._siding = self._sharers, aggregator.siding(cohort)

    def _leaves(self, bound: float, size: int) -> float:
        """Returns a bound on the probability that one of so many values is beyond a bound."""
        return size * math.erfc(max(0.0, bound - self.clip) / (math.sqrt(2) * self.share))

    def charge(self, round: Round, population: int) -> None:
        for client in round.clients:
            self._record(self.ledger.of(client), self.noise_multiplier)

    @staticmethod
    def _record(ledger: Ledger, noise_multiplier: float) -> None:
        ledger.record("noisy sum", noise_multiplier=noise_multiplier, sample_rate=1.0, steps=1)

    def epsilon_against(self, included: int, colluders: int, rounds: int, delta: float) -> float:
        """Returns epsilon of a client that took part in so many rounds, against server and clients.

        Args:
            included: clients in each sum.
            colluders: how many of them subtract their shares.
            rounds: in which the client took part.
            delta: of all of them together.

        Raises:
            ArgumentError: no honest client is left, or a delta outside (0, 1).
        """
        Whole(0, included - 1).check("colluders", colluders)
        ledger = Ledger()
        left = (included - colluders) / self._sharers
        for _ in range(rounds):
            self._record(ledger, self.noise_multiplier * math.sqrt(left))
        return ledger.get_epsilon(delta)

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        units = clip_to_grid(update, self.clip, order=2, frac_bits=self._frac_bits)
        noised = units + discrete_gaussian(math.ldexp(self.share, self._frac_bits), units.shape)
        private: Vector = np.ldexp(noised.astype(np.float64), -self._frac_bits)
        return private
