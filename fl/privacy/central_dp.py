"""Central differential privacy of clients: the server adds noise to the sum of clipped updates."""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.privacy.discrete import discrete_gaussian
from extensions.privacy.randomness import SystemSource
from extensions.rules import POSITIVE, Between, Whole, check_fields
from fl.privacy.adaptive_clipping import AdaptiveClipping
from fl.privacy.clipping import NOISE_UNITS, Units, clip_to_grid, norm_of
from fl.privacy.ledgers import ClientLedgers
from fl.privacy.mechanism import Mechanism
from fl.round.aggregator import Aggregator
from fl.round.machines import Round, Vector

Sampling = Literal["poisson", "fixed"]

_SINGLE_BITS = 24
"""Bits of an integer that single precision represents, whatever the integer."""


@dataclass(kw_only=True, eq=False, repr=False)
class CentralDP(Mechanism):
    """Makes the models of a run private for every client as a whole.

    In each round every client clips its update to norm C, the server adds N(0, (z C)^2) to the sum
    of them and divides it by the number of clients expected.

    Trust:
        You trust the server: it adds the noise, and sees the sum before that (with
        `PlainAggregator` every update; with `LocalDP` you need not trust it). The guarantee is
        against those who see only models, for example the clients. With sampling="poisson" it
        excludes those who learn who took part, from history, transcript or traffic.

    Guarantees:
        With sampling="poisson" the operating system's generator draws each client in each round
        with probability client_fraction. All models of the run together are
        (`ledger.get_epsilon(delta)`, delta)-private for runs with and without a client. Rounds of
        fewer than min_clients are filled up with clients whose updates count as zeros.

        With sampling="fixed" the run's public seed draws the same number of clients each time, so
        sampling amplifies nothing. `ledger.of(k)` composes the rounds of client k, for runs in
        which its updates are zeros instead.

        With neighbours="replace" a ledger's epsilon holds for a client with other updates. The
        sampling is Poisson's there too, and the number of clients is public.

        A round is charged before it begins. A training that raises an error counts as zeros, and
        so does an update with NaN or infinity. `UpdateError` withdraws the client, in public.

    Noise:
        Clients round toward 0 to multiples of 2^-24, or to coarser ones if C exceeds 2^24 of them.
        Single precision and `FixedPoint` of as many fractional bits carry these exactly. The server
        then adds discrete Gaussian noise to the integer sum, from the operating system's generator,
        so rounding leaves the sensitivity as it is. Ledgers account for it as continuous noise;
        accountant="rdp" has a bound for discrete noise itself.

    Cost:
        The bytes of the aggregator, and one more value with adaptive clipping.

    Args:
        noise_multiplier: z, standard deviation of the noise over C.
        clip: C, in L2, at the beginning.
        sampling: "poisson" or "fixed".
        min_clients: fewest clients of a round; at least the aggregator's.
        adaptive: how C changes; None: it stays.
        frac_bits: most fractional bits of the grid; at most the aggregator's.

    Attributes:
        clip: C of the next round; public.

    Raises:
        ArgumentError: an argument outside its range.

    Source:
        McMahan, Ramage, Talwar and Zhang, ICLR 2018 (fixed denominator); Geyer, Klein and Nabi,
        2017; Andrew et al., NeurIPS 2021 (adaptive clipping).

    Examples:
        >>> private = fl.CentralDP(noise_multiplier=1.0, clip=0.5)
        >>> run = fl.FederatedAveraging(**setup, aggregator=fl.PlainAggregator(), mechanism=private)
        >>> history = run.fit(rounds=2, delta=1e-3)
        >>> 0 < run.get_epsilon(1e-3) < 10
        True
    """

    exchange = "delta"
    parameters_only = True
    hides_updates = True
    equal_weights = True
    noise_multiplier: Annotated[float, POSITIVE]
    clip: Annotated[float, POSITIVE] = 1.0
    sampling: Sampling = "poisson"
    min_clients: Annotated[int, Whole(1)] = 2
    adaptive: AdaptiveClipping | None = None
    frac_bits: Annotated[int, Whole(1)] = 24
    ledger: Ledger | ClientLedgers = field(init=False)

    def __post_init__(self) -> None:
        check_fields(self)
        self.clip = self._initial_clip = float(self.clip)
        self.extra_values = 0 if self.adaptive is None else 1
        self.ledger = Ledger() if self.sampling == "poisson" else ClientLedgers()
        self._rate = self._expected = 0.0
        self._idle: frozenset[int] = frozenset()
        hint = "Then the grid is finer than the noise. Raise {clip} or {frac_bits}."
        Between(self._least_clip).check("clip", self.clip, hint)

    @property
    def _least_clip(self) -> float:
        return math.ldexp(NOISE_UNITS / min(1.0, self.noise_multiplier), -self.frac_bits)

    @property
    def _bits(self) -> int:
        """Fractional bits of this round's grid, negative for a large C."""
        return min(self.frac_bits, _SINGLE_BITS - math.ceil(math.log2(self.clip)))

    def parameters(self) -> dict[str, Any]:
        names = ("noise_multiplier", "sampling", "min_clients", "frac_bits")
        adaptive = None if self.adaptive is None else asdict(self.adaptive)
        given = {name: getattr(self, name) for name in names}
        return {**given, "clip": self._initial_clip, "adaptive": adaptive}

    def select(self, number: int, population: int, client_fraction: float) -> Sequence[int] | None:
        if self.sampling == "fixed":
            return None
        Whole(1, population).check("min_clients", self.min_clients)
        self._rate = client_fraction
        drawn = np.flatnonzero(SystemSource().bernoulli(0, client_fraction, population)).tolist()
        rest = sorted(set(range(population)) - set(drawn))
        missing = max(0, self.min_clients - len(drawn))
        self._idle = frozenset(secrets.SystemRandom().sample(rest, missing))
        return [*drawn, *self._idle]

    def check_aggregator(self, aggregator: Aggregator, size: int, cohort: int) -> None:
        """Checks that the aggregator's fixed point has this grid, and reaches the norm.

        On a coarser one values are rounded up, and a contribution may be of twice the norm.
        """
        grid = aggregator.fixed_point
        if grid is None:
            return
        finest = self._bits if self.adaptive is None else self.frac_bits
        if finest > grid.frac_bits:
            rule = f"at most {grid.frac_bits}, those of the aggregator's fixed point"
            hint = "Otherwise rounded updates would exceed the clipping norm."
            raise ArgumentError("frac_bits", finest, rule, hint, code="range")
        if grid.saturation == "error" and self.clip > grid.clip:
            rule = f"at most {grid.clip:g}, the range of the aggregator's fixed point"
            hint = "Widen the range, or lower {clip}."
            raise ArgumentError("clip", self.clip, rule, hint, code="range")

    def cohort(self, selected: int) -> int:
        return selected if self.sampling == "fixed" else self.min_clients

    def announced(self) -> dict[str, Any]:
        return {"clip": self.clip}

    def tells(self, client: int) -> dict[str, Any]:
        return {**self.announced(), "idle": client in self._idle}

    def hear(self, client: int, told: Mapping[str, Any]) -> None:
        self._idle = frozenset({client} if told.get("idle") is True else ())
        if self.adaptive is not None:
            clip: Any = told.get("clip")
            POSITIVE.check("clip", clip)
            self.clip = float(clip)

    def charge(self, round: Round, population: int) -> None:
        poisson = isinstance(self.ledger, Ledger)
        self._expected = self._rate * population if poisson else float(len(round.clients))
        self._multiplier()
        rate = self._rate if poisson else 1.0
        ledgers = (
            [self.ledger] if isinstance(self.ledger, Ledger) else map(self.ledger.of, round.clients)
        )
        for ledger in ledgers:
            ledger.record(
                "noisy sum", noise_multiplier=self.noise_multiplier, sample_rate=rate, steps=1
            )

    def _multiplier(self) -> float:
        """Noise multiplier of the sum alone."""
        if self.adaptive is None:
            return self.noise_multiplier
        return self.adaptive.noise_of_sum(self.noise_multiplier, self._expected)

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        if client in self._idle:
            return np.zeros(round.size)
        units = clip_to_grid(update, self.clip, order=2, frac_bits=self._bits)
        values = np.ldexp(units.astype(np.float64), -self._bits)
        if self.adaptive is None:
            return values
        return np.append(values, 0.5 if norm_of(update, 2) <= self.clip else -0.5)

    def server(self, mean: Vector, round: Round, included: tuple[int, ...]) -> Vector:
        total = mean * len(included)
        size = round.size - self.extra_values
        result = self._noised(total[:size], self._multiplier() * self.clip, self._bits)
        if self.adaptive is not None:
            noise = self.adaptive.noise_of_count(self._expected)
            (count,) = self._noised(total[size:], noise, _SINGLE_BITS)
            adapted = self.adaptive.next_clip(self.clip, float(count) / self._expected + 0.5)
            self.clip = max(adapted, self._least_clip)
        return result / self._expected

    @staticmethod
    def _noised(total: Vector, sigma: float, bits: int) -> Vector:
        units: Units = np.rint(np.ldexp(total, bits)).astype(np.int64)
        noised = units + discrete_gaussian(math.ldexp(sigma, bits), units.shape)
        result: Vector = np.ldexp(noised.astype(np.float64), -bits)
        return result

    def state(self) -> str:
        return json.dumps({"ledger": self.ledger.to_json(), "clip": self.clip})

    def restore(self, state: str) -> None:
        try:
            entries = json.loads(state)
            ledger, clip = self.ledger.from_json(entries["ledger"]), float(entries["clip"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            rule = "what CentralDP.state wrote"
            raise ArgumentError("state", state[:80], rule, code="file") from error
        if self.adaptive is None and clip != self._initial_clip:
            raise ArgumentError("clip", clip, f"{self._initial_clip:g}, which does not adapt")
        Between(self._least_clip).check("clip", clip)
        self.ledger, self.clip = ledger, clip
