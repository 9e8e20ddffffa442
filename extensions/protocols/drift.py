"""How far private steps may have moved the weights, so that norm bounds keep holding."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TypeVar

from extensions.errors import ArgumentError, GradientError
from extensions.privacy.ledger import GO_ON
from extensions.protocols.dpsgd_plan import INITIAL_WEIGHT_SHARE, LEAST_RATE
from extensions.protocols.updates import UpdateRule
from extensions.ring.fixed_point import RING_BITS
from extensions.ring.interface import Ring, Share

_KEPT_BITS = 10
_ROUNDING = 1.0 + 2.0**-8
_DIGITS = 4
"""Of learning rates that errors name."""

Made = TypeVar("Made")


@dataclass
class Drift:
    """Bounds added up over the steps of one model.

    Attributes:
        max_weight_norm: public bound of the Frobenius norm that any hidden weight may reach.
        pull: sum of their bounds.
        energy: sum of their noise's, squared.
    """

    max_weight_norm: float
    steps: int = 0
    pull: float = 0.0
    energy: float = 0.0

    def within(self, max_weight_norm: float) -> "Drift":
        """Returns the same counts beside another bound.

        Raises:
            ArgumentError: steps were made, and it is lower: weights may start, and have moved,
                beyond their parts of it.
        """
        if self.steps and max_weight_norm < self.max_weight_norm:
            raise ArgumentError(
                "max_weight_norm",
                max_weight_norm,
                f"at least {self.max_weight_norm:g}, the bound of the {self.steps} steps made",
                "Compile the model with another optimizer, which checks the weights again, and "
                f"{GO_ON}",
                code="range",
            )
        return replace(self, max_weight_norm=max_weight_norm)

    def state(self) -> list[float]:
        """Returns what was added up so far."""
        return [self.steps, self.pull, self.energy]

    def restore(self, state: Sequence[float]) -> None:
        """What `state` returned counts as added up."""
        self.steps, self.pull, self.energy = int(state[0]), state[1], state[2]

    def count(self, rule: UpdateRule, steps: int = 1) -> None:
        """Counts steps that were checked."""
        if rule.plan.moves:
            self.pull += steps * rule.largest_pull
            self.energy += steps * rule.largest_noise**2
        self.steps += steps

    def check(self, rule: UpdateRule, steps: int, rates: Sequence[float] | None = None) -> None:
        """Makes sure that so many more steps are within the bound.

        Args:
            rates: the learning rate of each, if it is not the rule's.

        Raises:
            GradientError: after them the norm bound of hidden layers might no longer hold.
        """
        if rule.plan.moves:
            own = rule.plan.learning_rate
            ratios = [rate / own for rate in rates or [own] * steps]
            pull = self.pull + math.fsum(ratios) * rule.largest_pull
            squares = math.fsum(ratio**2 for ratio in ratios)
            energy = self.energy + squares * rule.largest_noise**2
            allowed = (1.0 - INITIAL_WEIGHT_SHARE) * self.max_weight_norm
            if pull + math.sqrt(energy) > allowed:
                raise GradientError(
                    f"After {self.steps} steps, {steps} more might move the weights by more than "
                    f"{allowed:g} in all (max_weight_norm = {self.max_weight_norm:g}). Beyond "
                    "that, norms of hidden gradients may exceed the ring. Lower the learning rate, "
                    "train for fewer steps, or declare a larger max_weight_norm."
                )


def with_largest_rate(rate: float, make: Callable[[float], Made], which: str = "") -> Made:
    """Returns what is made with a learning rate; if that is too high, the error names the largest.

    Args:
        make: raises ArgumentError or GradientError if a rate, or anything else, does not fit; makes
            nothing but public constants.
        which: what else the error says of the largest rate, such as for which step it is.

    Raises:
        ArgumentError, GradientError: those of `make`. If a lower rate fits, their last sentence
            names the largest one, to 4 digits, rounded down.
    """
    try:
        return make(rate)
    except (ArgumentError, GradientError) as error:
        most = _largest_rate(rate, make)
        if most is not None:
            sentence = f"The largest learning rate that is taken is {most:g}{which}."
            if isinstance(error, ArgumentError):
                error.hint = f"{error.hint} {sentence}".lstrip()
            else:
                error.args = (f"{error} {sentence}",)
        raise


def _largest_rate(rate: float, make: Callable[[float], object]) -> float | None:
    """Returns the largest rate of 4 digits that fits, below one that does not; None if none does.

    Rates are halved until one fits, and then tried between the last two.
    """

    def fits(tried: float) -> bool:
        try:
            make(tried)
        except (ArgumentError, GradientError):
            return False
        return True

    if not math.isfinite(rate):
        return None
    low, high = _rounded_down(rate), rate
    while low >= LEAST_RATE and not fits(low):
        low, high = _rounded_down(low / 2), low
    if low < LEAST_RATE:
        return None
    while (middle := _rounded_down((low + high) / 2)) > low:
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _rounded_down(rate: float) -> float:
    """Returns a rate of 4 digits at most, which is no larger."""
    digits = _DIGITS - 1 - math.floor(math.log10(rate))
    return math.floor(rate * 10.0**digits) / 10.0**digits


def within_initial_bound(
    ring: Ring, layers: Sequence[Sequence[Share]], max_weight_norm: float
) -> Share:
    """Returns shares of 1 for each layer that is small enough to start from, and of less else.

    Args:
        layers: shares of what each consists of: a weight and a bias, or one of them.
        max_weight_norm: bound that the norm of (W, b) may reach; a part of it is for the start.

    Guarantees:
        1 for a norm within that part. Not 1 for a norm beyond it by more than the factor 1 + 2^-8
        and 2^-9 times the root of the number of values, which the plan's rounding of norms covers.
        That holds for all ring integers.

    Cost:
        The rounds of a truncation, a product, a comparison and a conversion, once.
    """
    parts = [[part.reshape(-1) for part in layer] for layer in layers]
    flat = [part for layer in parts for part in layer]
    counts = [sum(part.shape[0] for part in layer) for layer in parts]
    shifts = _shifts(ring.frac_bits, max(counts))
    rounded = ring.truncate([(part, shift) for shift in shifts for part in flat])
    products = ring.mul([(x, x) for x in rounded])
    squares = iter([product.reshape(1, -1).sum(-1) for product in products])
    bound = INITIAL_WEIGHT_SHARE * max_weight_norm * _ROUNDING
    excess = []
    for shift in shifts:
        longest = math.ldexp(bound, ring.frac_bits - shift)
        for layer, count in zip(parts, counts, strict=True):
            total = reduce(add, [next(squares) for _ in layer])
            largest = math.floor((longest + math.sqrt(count)) ** 2)
            excess.append(ring.add_public(total, -largest))
    passed = ring.less_than(ring.stack(excess).reshape(len(shifts), -1), [1])[0].sum(0)
    return ring.add_public(passed, 1 - len(shifts))


def _shifts(frac_bits: int, count: int) -> list[int]:
    """Returns how many bits are dropped before values are squared, in each test.

    Squares of large values would wrap around and look small. What passes the test behind has a norm
    of at most B + 2 sqrt(n) there, so of B + 2^(1 + step) sqrt(n) < 2^31 + B here, whose square
    fits 63 bits; in the last test all values do.

    Args:
        count: n of them in a layer, at most.
    """
    step = 30 - (count.bit_length() + 1) // 2
    return list(range(max(frac_bits - _KEPT_BITS, 0), RING_BITS - 1, step))


def check_start(within: Mapping[str, int], max_weight_norm: float, *, name: str = "model") -> None:
    """Makes sure that training may start from parameters.

    Args:
        within: by the layer's name, what `within_initial_bound` found.
    """
    too_large = [layer for layer, fits in within.items() if fits != 1]
    if too_large:
        raise ArgumentError(
            name,
            f"with {', '.join(too_large)} of a larger norm",
            "layers whose weight and bias have a joint norm of at most "
            f"{INITIAL_WEIGHT_SHARE * max_weight_norm:g}, the start's part of max_weight_norm = "
            f"{max_weight_norm:g}",
            "Scale them down or declare a larger max_weight_norm. To go on with a trained model, "
            "load its weights first and then its optimizer's state.",
            code="range",
        )
