"""Local differential privacy: each client clips its update and adds noise before it sends."""

import functools
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from extensions.errors import ArgumentError, optional
from extensions.privacy.accounting import check_real, check_target
from extensions.privacy.discrete import discrete_gaussian
from extensions.rules import POSITIVE, Between, check_fields
from fl.privacy.clipping import Units, bits_for, clip_to_grid
from fl.privacy.ledgers import ClientLedgers
from fl.privacy.mechanism import Mechanism
from fl.round.aggregator import Aggregator
from fl.round.machines import Round, Vector

Noise = Literal["gaussian", "laplace"]

_LARGEST_EPSILON = 1000.0
_MAY_LEAVE, _SELDOM = 0.01, 2.0**-20
"""Probabilities that noise takes an update out of the range: refused, and advised."""
_NOISE_UNITS = 2.0**20
"""Least scale of the noise on the grid on which it is drawn."""


@dataclass(kw_only=True, eq=False, repr=False)
class LocalDP(Mechanism):
    """Makes every update private before it leaves the client, even against the server.

    Guarantees:
        One update is (epsilon, delta)-differentially private for any two updates that the client
        could have, so a client trusts only itself. Two clipped updates are at most 2 clip apart.
        That sensitivity already covers replacement, so ask ledgers without neighbours="replace".

        The server knows who is selected, so selection amplifies nothing. `ledger.of(k)` composes
        the rounds in which client k was selected, and `ledger.get_epsilon` is that of the client
        that spent most. A client is charged when it is selected, even if it vanishes.

        A training that raises an error counts as zeros, with the same noise, and so does an update
        with NaN or infinity. `UpdateError` withdraws the client, in public.

    Noise:
        Discrete, from the operating system's generator, on a grid on which its scale is 2^20 units
        or more. Integers on that grid are added, so floating-point rounding reveals nothing.
        Discrete Laplace noise has epsilon exactly. Ledgers account for discrete Gaussian noise as
        continuous noise. On such a grid delta differs by less than 1e-9 of itself, and
        accountant="rdp" has a bound for discrete noise itself.

    Cost:
        0 bytes; about 0.6 microseconds a value with Gaussian noise, 10 with Laplace noise.

    Args:
        epsilon: of one update, up to 1000.
        clip: bound of the update's norm: in L2 with Gaussian noise, in L1 with Laplace noise.
        delta: of one update, above 0, with Gaussian noise; 0 with Laplace noise.
        noise: "gaussian" (the analytic mechanism, exact at every epsilon) or "laplace" (needs the
            extra of that name).

    Attributes:
        scale: standard deviation of the Gaussian noise, or the b of exp(-|x| / b).

    Raises:
        ArgumentError: an argument outside its range.
        MissingExtraError: OpenDP, which draws Laplace noise, is not installed.

    Source:
        Balle and Wang, ICML 2018; Canonne, Kamath and Steinke, NeurIPS 2020 (discrete noise);
        Mironov, CCS 2012 (why).

    Examples:
        >>> local = fl.LocalDP(epsilon=8.0, delta=1e-5, clip=1.0)
        >>> local.scale > 0.5
        True
    """

    exchange = "delta"
    parameters_only = True
    hides_updates = True
    epsilon: float
    clip: Annotated[float, POSITIVE] = 1.0
    delta: float = 0.0
    noise: Noise = "gaussian"
    ledger: ClientLedgers = field(default_factory=ClientLedgers, init=False)

    def __post_init__(self) -> None:
        check_fields(self)
        check_target(self.epsilon, largest=_LARGEST_EPSILON, advice="It would protect nothing.")
        if self.noise == "laplace" and self.delta != 0:
            raise ArgumentError("delta", self.delta, "0 with {noise=laplace}", code="range")
        gaussian = self.noise == "gaussian"
        if not gaussian:
            optional("opendp", "opendp", "laplace")
        self._multiplier = (
            analytic_noise(self.epsilon, self.delta) if gaussian else 1 / self.epsilon
        )
        self.scale = self._multiplier * 2 * self.clip
        self._frac_bits = bits_for(self.scale, _NOISE_UNITS)

    def parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("epsilon", "delta", "clip", "noise")}

    def check_aggregator(self, aggregator: Aggregator, size: int, cohort: int) -> None:
        """Checks that noised updates lie in the range of the aggregator's fixed point.

        Refused are ranges beyond which one of a hundred updates, or more, would have a value of
        noise alone: their clients would withdraw.
        """
        grid = aggregator.fixed_point
        if grid is None or grid.saturation == "clip":
            return
        if size * self._tail(grid.clip) > _MAY_LEAVE:
            enough = 2.0 ** math.ceil(math.log2(grid.clip))
            while size * self._tail(enough - self.clip) > _SELDOM:
                enough *= 2
            raise ArgumentError(
                "fixed_point.clip",
                grid.clip,
                f"at least {enough:g} with noise of scale {self.scale:.3g} on {size} values",
                "Give the fixed point that range, or {saturation=clip}.",
                code="range",
            )

    def _tail(self, bound: float) -> float:
        """Returns the probability that one value of noise is beyond a bound; 1 below 0."""
        scaled = max(0.0, bound) / self.scale
        return math.erfc(scaled / math.sqrt(2)) if self.noise == "gaussian" else math.exp(-scaled)

    def charge(self, round: Round, population: int) -> None:
        for client in round.clients:
            ledger = self.ledger.of(client)
            if self.noise == "gaussian":
                ledger.record("update", noise_multiplier=self._multiplier, sample_rate=1.0, steps=1)
            else:
                ledger.charge("update", epsilon=self.epsilon, delta=0.0)

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        gaussian = self.noise == "gaussian"
        units = clip_to_grid(
            update, self.clip, order=2 if gaussian else 1, frac_bits=self._frac_bits
        )
        draw = discrete_gaussian if gaussian else discrete_laplace
        noised = units + draw(math.ldexp(self.scale, self._frac_bits), units.shape)
        private: Vector = np.ldexp(noised.astype(np.float64), -self._frac_bits)
        return private


LAPLACE_TAIL = 700.0
"""No draw of Laplace noise leaves as many scales but with probability below 2^-1000."""

_LARGEST = 2.0**62


@functools.lru_cache(maxsize=64)
def _sampler(scale: float) -> Any:
    """Returns OpenDP's measurement; `opendp.prelude` would import scikit-learn, for 1 s."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    return make_laplace(integers, l1_distance(T="i64"), scale=scale)


def discrete_laplace(scale: float, shape: tuple[int, ...]) -> Units:
    """Returns fresh integers with P(k) proportional to exp(-|k| / scale), in units of the grid.

    Exact sampling by OpenDP, from a generator that the operating system seeds; the tables of
    `extensions.privacy` are of Gaussians. A scale at which noise could leave the range of the
    integers is an ArgumentError.

    Source:
        Canonne, Kamath and Steinke, NeurIPS 2020, Algorithm 2.
    """
    Between(0.0, _LARGEST / LAPLACE_TAIL, below=True).check("scale", scale)
    if scale == 0.0 or math.prod(shape) == 0:
        return np.zeros(shape, dtype=np.int64)
    draws = _sampler(float(scale))([0] * math.prod(shape))
    return np.asarray(draws, dtype=np.int64).reshape(shape)


_ROUNDING = 1e-13
"""Relative error of the tail probabilities below, at most; it is taken off delta."""


def gaussian_delta(epsilon: float, noise_multiplier: float) -> float:
    """Returns the least delta at which Gaussian noise is (epsilon, delta)-private, rounded up.

    With s for its deviation over the sensitivity in L2 that is
    P(N > epsilon s - 1/(2s)) - e^epsilon P(N > epsilon s + 1/(2s)).

    Source:
        Balle and Wang, ICML 2018, Theorem 8.
    """
    from scipy.special import log_ndtr

    half, shift = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
    gained = math.exp(log_ndtr(half - shift))
    lost = math.exp(epsilon + log_ndtr(-half - shift))
    return max(0.0, gained - lost) + _ROUNDING * gained


def analytic_noise(epsilon: float, delta: float) -> float:
    """Returns the least noise multiplier of one (epsilon, delta)-private Gaussian release.

    The usual sqrt(2 ln(1.25 / delta)) / epsilon holds for epsilon < 1 only, where it is too much;
    further up it is too little, and the release is not private as stated.

    Guarantees:
        `gaussian_delta(epsilon, result) <= delta`, and the result is within 1e-9 (relative) of the
        least.

    Raises:
        ArgumentError: epsilon not above 0, or delta not between 0 and 1.

    Source:
        Balle and Wang, ICML 2018, Algorithm 1; here by bisection.
    """
    epsilon, delta = check_real("epsilon", epsilon), check_real("delta", delta)
    low = high = 1.0
    while gaussian_delta(epsilon, high) > delta:
        high *= 2.0
    while gaussian_delta(epsilon, low) <= delta:
        low /= 2.0
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        if gaussian_delta(epsilon, middle) <= delta:
            high = middle
        else:
            low = middle
    return high
