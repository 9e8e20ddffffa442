"""The public constants of one private step, and the bounds that they prove."""

import functools
import math
from dataclasses import dataclass, fields
from typing import Annotated, Any, Self

from extensions.errors import ArgumentError
from extensions.layers.guards import Guard
from extensions.layers.linear_layers import LayerShape, NormMethod, any_moves, guard_shifts
from extensions.privacy.gaussian_table import TAIL
from extensions.protocols.clipping import ClipPlan, inverse_square_up
from extensions.protocols.noise import WIDENING, Noise, check_colluders, least_sigma, party_variance
from extensions.ring.fixed_point import MAX_ETA, SAFE_BITS, check_frac_bits
from extensions.rules import POSITIVE, Between, Whole, check_fields

MIN_TRAINING_BITS = 12
LEARNING_RATE_BITS = 10
FACTOR_EXTRA_BITS = 6
UNFOLDED_EXTRA_BITS = 10
"""The same where a layer has many positions, whose roundings add up."""
MATERIALISED_BITS = 6
"""Squared norms are raised by 2^-6 of themselves where gradients are rounded before they are
squared; what that needs beside is 2^6 of the squares of what was rounded off."""
SPARED_BITS = 4
"""Clipped deltas have fewer fractional bits than the ring by so many at most."""
MOMENTUM_BITS = 10
MOMENTUM = Between(0.0, 1.0 - 2.0**-MOMENTUM_BITS, words="in 0..0.999")
MIN_NORM_BITS = 8
LEAST_RATE, MOST_RATE = 2.0**-40, 2.0**40
"""Of learning rates; which of them fit the ring depends on the batch (`StepPlan`)."""
DEFAULT_WEIGHT_NORM = 400.0
INITIAL_WEIGHT_SHARE = 0.25
"""The part of the bound on a weight's norm that is for its initial value."""
PLAIN_NORM = 64.0
"""Plain SGD, which clips nothing, fits the ring while gradients average at most this norm."""


@dataclass(frozen=True, kw_only=True)
class StepPlan(Noise):
    """The public constants of one step, and the bounds that they prove.

    Args:
        layers: shapes of the linear layers, of frozen ones too.
        rows: rows of the batch, padding included.
        learning_rate: public; the noisy sum is multiplied by learning_rate / expected_batch_size.
        degree: of the clip factor's polynomial.
        momentum: what of an update goes into the next one, rounded to 2^-10.
    """

    frac_bits: int
    layers: tuple[LayerShape, ...]
    rows: Annotated[int, Whole(1)]
    learning_rate: Annotated[float, POSITIVE]
    expected_batch_size: Annotated[float, POSITIVE]
    parties: int
    degree: int = 2
    momentum: Annotated[float, MOMENTUM] = 0.0

    @classmethod
    def of(cls, training: Any, **others: Any) -> Self:
        """Returns the constants of a step of a training.

        Args:
            training: whose settings of these names it has.
            others: what that does not say, or what is otherwise in a step.
        """
        names = [field.name for field in fields(cls) if hasattr(training, field.name)]
        return cls(**{name: getattr(training, name) for name in names} | others)

    def __post_init__(self) -> None:
        if check_frac_bits(self.frac_bits) < MIN_TRAINING_BITS:
            raise ArgumentError(
                "frac_bits",
                self.frac_bits,
                f"at least {MIN_TRAINING_BITS} for training",
                "With fewer, rounding exceeds the slack of the bounds on activations.",
            )
        check_fields(self)
        inverse_square_up(self.norm_bound, name="max_grad_norm")
        if not self._trained:
            raise ArgumentError("layers", self.layers, "at least one LayerShape that is trained")
        _ = self.noise_variance  # refuses unknown shares
        check_colluders(self.parties, self.colluders, dealer_noise=self.dealer_noise)
        _ = self.clip  # refuses a degree without a polynomial
        if self.private:
            check_multiplier(self, self.noise, self.noise_variance)
            self._check_norms()
            self._check_noise()
        self._check_update()

    def _check_norms(self) -> None:
        worst = max(max(s.delta_norm, s.input_norm * s.has_weight) for s in self._trained)
        room = most_norm(self.frac_bits)
        if worst > room or min(bits for bits, _ in self.norm_bits) < MIN_NORM_BITS:
            raise ArgumentError(
                "layers",
                [(s.input_norm, s.delta_norm) for s in self._trained],
                f"norm bounds (input, delta) below {room:.3g} whose product leaves "
                f"{MIN_NORM_BITS} bits for squared norms",
                "Lower the bounds on features, activations or weights, or lower frac_bits.",
            )
        self._check_squares()
        for _, guard in self.guards:
            guard.threshold(self.frac_bits)
        if self.eta > MAX_ETA:
            raise ArgumentError(
                "frac_bits",
                self.frac_bits,
                f"such that eta, now {self.eta:.3g}, is at most {MAX_ETA}",
                "Raise frac_bits or max_grad_norm; with many positions lower frac_bits instead.",
            )

    def _check_squares(self) -> None:
        """What layers with positions add up to, roundings included, leaves room for 1 / C^2."""
        squares = 0.0
        for s, (d, a) in zip(self.layers, self.norm_bits, strict=True):
            p, (deltas, inputs) = s.positions, (s.delta_norm**2, s.input_norm**2 + s.positions)
            if s.way == "frozen":
                continue
            if s.way == "bias":
                kept = self.bias_norm_bits(s)
                squares += (deltas * 4.0**-s.bias_bits * 2.0**kept + 2) * 2.0 ** (d - kept)
            elif s.way == "materialised":
                longest = math.sqrt(deltas * inputs) * 2.0 ** ((d + a) // 2)
                squares += 2 * (longest + math.sqrt(s.weights)) ** 2 + (s.weights << 7)
            else:
                squares += (deltas * 2.0**d + 2 * p) * (inputs * 2.0**a + 2 * p) + 3 * p * p
        numerator, _ = inverse_square_up(self.norm_bound)
        if self._unfolded and squares * numerator >= 2.0**SAFE_BITS:
            raise ArgumentError(
                "layers",
                [(s.positions, s.input_norm, s.delta_norm) for s in self._trained],
                "of fewer positions, or lower norm bounds: squared norms leave the ring",
            )

    def _check_noise(self) -> None:
        bits = self.frac_bits + self.factor_bits
        least = least_sigma(self.contributors, frac_bits=bits, split=self)
        if 0 < self.sigma < least:
            raise ArgumentError(
                "noise_multiplier",
                self.noise_multiplier,
                f"0, or at least {least / (self.sigma / self.noise):.3g} with "
                f"frac_bits = {self.frac_bits} and max_grad_norm = {self.max_grad_norm:g}",
                "Raise frac_bits, or the noise.",
            )

    def _check_update(self) -> None:
        """The truncation has bits for momentum and biases, whose products stay in its range.

        With A < 2^61 / lasting for the sum times the ratio, and `lasting` = 1 / (1 - momentum), the
        truncated |z_t| <= A + momentum (|z_(t - 1)| + 2^shift) is at most (A + 2^shift) lasting.
        """
        shift = self.step_ratio[1] + self.factor_bits
        room = max(shape.bias_bits for shape in self.layers)
        least, most = 0, SAFE_BITS - room
        if self.momentum_numerator:
            least, most = MOMENTUM_BITS, most - 1 - math.ceil(math.log2(self.lasting))
        if not least <= shift < most:
            raise ArgumentError(
                "learning_rate",
                self.learning_rate,
                "such that learning_rate / expected_batch_size is in "
                f"2^{self.factor_bits + 10 - most}..2^{self.factor_bits + 9 - least}",
                f"It is {self.learning_rate / self.expected_batch_size:.3g}.",
            )

    @functools.cached_property
    def clip(self) -> ClipPlan:
        """The constants of the clip factor."""
        return ClipPlan(frac_bits=self.frac_bits, degree=self.degree)

    @functools.cached_property
    def norm_bits(self) -> list[tuple[int, int]]:
        """Fractional bits of ||delta||^2 and of ||a||^2 + 1, for each layer.

        Their sum is the same for all layers and leaves the sum of the products, scaled by
        1 / C^2, below 2^61. Of a bias alone, all are ||delta||^2's.
        """
        ranges = [
            (
                math.ceil(2 * math.log2(s.delta_norm)) + 1 if s.is_trained else 0,
                math.ceil(math.log2(s.input_norm**2 + 2 * s.positions)) if s.has_weight else 0,
            )
            for s in self.layers
        ]
        numerator, shift = inverse_square_up(self.norm_bound)
        count = math.ceil(math.log2(len(self._trained)))
        taken = max(max(d, 0) + a for d, a in ranges) + count
        budget = SAFE_BITS - 1 - taken - numerator.bit_length()
        budget = min(
            budget, 4 * self.frac_bits, 2 * (SAFE_BITS // 2 - 1), SAFE_BITS + self.frac_bits - shift
        )
        result = []
        for layer, (_, a) in zip(self.layers, ranges, strict=True):
            if not layer.has_weight:
                result.append((budget, 0))
                continue
            # At the bound C, where it matters, deltas are as short as inputs are long.
            less = 2 * a if layer.way == "ghost" else a
            a_bits = min(max((budget - less) // 2, 3), 2 * self.frac_bits)
            result.append((min(budget - a_bits, 2 * self.frac_bits), a_bits))
        total = min(d + a for d, a in result)
        if total + shift < self.frac_bits:
            raise ArgumentError(
                "max_grad_norm",
                self.max_grad_norm,
                "larger for layers with these norm bounds",
                "Lower the bounds on features, activations or weights, or rescale the data.",
            )
        return [(total - a, a) for _, a in result]

    def bias_norm_bits(self, shape: LayerShape) -> int:
        """Fractional bits with which the squared norm of a bias's gradient is truncated.

        Args:
            shape: of a layer whose bias alone is trained.
        """
        return min(sum(self.norm_bits[0]), 2 * (self.frac_bits + shape.bias_bits))

    @functools.cached_property
    def factor_bits(self) -> int:
        """Fractional bits of the clipped deltas: what the sum and the update leave free."""
        if self.private:
            largest = self.rows * self.max_grad_norm * (1 + MAX_ETA) + TAIL * self.noise_scale(1.0)
        else:
            largest = self.rows * PLAIN_NORM
        largest *= self.lasting
        free = SAFE_BITS - 1 - self.frac_bits - LEARNING_RATE_BITS - math.ceil(math.log2(largest))
        if free < self.frac_bits - SPARED_BITS:
            most = (free + self.frac_bits + SPARED_BITS) // 2
            raise ArgumentError(
                "frac_bits",
                self.frac_bits,
                f"at most {most} for this batch, bound and noise",
                "Lower frac_bits, the batch size, the noise or the momentum.",
            )
        extra = UNFOLDED_EXTRA_BITS if self._unfolded else FACTOR_EXTRA_BITS
        return min(free, self.frac_bits + extra)

    @property
    def parts(self) -> list[tuple[int, int]]:
        """What is trained, in turn: of layer i (i, 0) for its weight, and (i, 1) for its bias."""
        each = ((i, (s.has_weight, s.has_bias)) for i, s in enumerate(self.layers))
        return [(i, j) for i, both in each for j in (0, 1) if both[j]]

    @property
    def _trained(self) -> list[LayerShape]:
        """The layers of which anything is."""
        return [shape for shape in self.layers if shape.is_trained]

    @property
    def _unfolded(self) -> bool:
        """Whether squared norms of layers with positions are needed."""
        return any(shape.positions > 1 for shape in self._trained)

    @property
    def moves(self) -> bool:
        """Whether bounds of gradients depend on how far steps move weights."""
        return self.private and any_moves(self.layers)

    @property
    def ways(self) -> list[NormMethod]:
        """How each layer's squared norms are found (`LayerShape.way`)."""
        return [shape.way for shape in self.layers]

    @property
    def norm_bound(self) -> float:
        """What norms are compared with: C, or less by 2^-7 where some are materialised.

        A gradient g is rounded to h, each of N entries by less than u. For every t > 0, |g|^2 <=
        (1 + t) |h|^2 + (1 + 1/t) N u^2 = (1 + t) (|h|^2 + N u^2 / t); with t = 2^-6 the factor goes
        into 1 / C^2, since 1 - t/2 <= 1 / sqrt(1 + t). To round entries up would not do: it moves
        negative ones toward 0.
        """
        rounded = "materialised" in self.ways
        return self.max_grad_norm * (1 - 2.0 ** -(MATERIALISED_BITS + 1) * rounded)

    @property
    def guards(self) -> list[tuple[int, Guard]]:
        """The layers at whose inputs gradients are tested, and how."""
        return [(i, s.guard) for i, s in enumerate(self.layers) if s.guard is not None]

    @property
    def guard_shifts(self) -> list[int | None]:
        """Those of the layers (`extensions.layers.linear_layers.guard_shifts`)."""
        return guard_shifts(self.layers, self.frac_bits)

    def noise_scale(self, slack: float) -> float:
        """Bounds the standard deviation of all parties' noise together, before the division."""
        total = self.max_grad_norm * slack * math.sqrt(self.noise_variance) * WIDENING
        return self.noise * total

    @property
    def contributors(self) -> int:
        """Number of those who add noise: the parties, and the dealer if it does."""
        return self.parties + self.dealer_noise

    @property
    def noise_variance(self) -> float:
        """The variance of all noise together, in units of sigma^2."""
        each = party_variance(self.contributors, self)
        return self.contributors * each

    @property
    def sigma(self) -> float:
        """The standard deviation that remains of the noise after `colluders` subtract theirs."""
        return self.noise * self.max_grad_norm * (1 + self.eta)

    @property
    def eta(self) -> float:
        """One example moves the sum by at most max_grad_norm (1 + eta): the sensitivity.

        The factor is one-sided, squared norms and 1 / C^2 are rounded up, and the final product
        is not rounded at all; what remains is the rounding of delta * factor, below one unit of
        2^-factor_bits in each of out_features coordinates, times the norm of (a_j, s).

        Of a layer with P positions deltas are a matrix of P rows: their rounding E is at most
        sqrt(P out_features) units long, and moves the weight's gradient by |E^T U| <= |E| |U| and
        the bias's, the sum of E's rows, by s |E| sqrt(P).
        """
        error = math.fsum(s.positions * s.out_features * s.reach**2 for s in self._trained)
        return math.ldexp(math.sqrt(error), -self.factor_bits) / self.max_grad_norm

    @property
    def parameters(self) -> int:
        """Number of weights and biases that are trained."""
        return sum(shape.weights for shape in self.layers)

    @property
    def momentum_numerator(self) -> int:
        """Momentum in units of 2^-MOMENTUM_BITS."""
        return round(self.momentum * (1 << MOMENTUM_BITS))

    @property
    def lasting(self) -> float:
        """What an update comes to with all that momentum makes of it later: 1 / (1 - momentum)."""
        return lasting(self.momentum)

    @property
    def largest_pull(self) -> float:
        """Bound of the Frobenius norm by which one step's clipped sum moves all weights.

        In that step and, by momentum, in later ones.
        """
        ratio = self.learning_rate / self.expected_batch_size
        norm = self.max_grad_norm * (1 + self.eta) if self.private else PLAIN_NORM
        return ratio * self.rows * norm * self.lasting

    @property
    def largest_noise(self) -> float:
        """Bound of the norm by which one step's noise moves them, but with probability 2^-70.

        Over several steps these bounds add in squares.
        """
        ratio = self.learning_rate / self.expected_batch_size
        norm = self.noise_scale(1 + self.eta) * (math.sqrt(self.parameters) + 10.0)
        return ratio * norm * self.lasting

    @functools.cached_property
    def step_ratio(self) -> tuple[int, int]:
        """(K, m) with K / 2^m nearest to learning_rate / expected_batch_size, K of 10 bits."""
        mantissa, exponent = math.frexp(self.learning_rate / self.expected_batch_size)
        return round(mantissa * (1 << LEARNING_RATE_BITS)), LEARNING_RATE_BITS - exponent


def lasting(momentum: float) -> float:
    """Returns what an update comes to with all that momentum makes of it later."""
    numerator = round(momentum * (1 << MOMENTUM_BITS))
    return 1.0 / (1.0 - math.ldexp(numerator, -MOMENTUM_BITS))


def most_norm(frac_bits: int) -> float:
    """Returns the bound of norms of inputs and deltas with which a private step can be made."""
    return math.pow(2.0, (SAFE_BITS - 1) / 2 - frac_bits)


def check_multiplier(steps: Any, noise_multiplier: float, variance: float) -> None:
    """Checks that steps can have that noise, with batches that are small enough.

    Args:
        steps: their `frac_bits` f, `max_grad_norm` C and `momentum`; noise leaves clipped deltas
            f - `SPARED_BITS` fractional bits.
        variance: of all parties' noise together, in units of sigma^2.
    """
    f, norm, momentum = steps.frac_bits, steps.max_grad_norm, steps.momentum
    room = SAFE_BITS - 1 - LEARNING_RATE_BITS - 2 * f + SPARED_BITS
    unit = TAIL * norm * math.sqrt(variance) * WIDENING
    most = math.ldexp(1.0, room) / (unit * lasting(momentum))
    if noise_multiplier > most:
        raise ArgumentError(
            "noise_multiplier",
            noise_multiplier,
            f"at most {most:.3g} with frac_bits = {f}, max_grad_norm = {norm:g} and momentum = "
            f"{momentum:g}",
            "Lower it, or one of them.",
        )
