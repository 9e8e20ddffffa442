"""Words of a comparison: each level of its tree leaves a quarter of the words."""

from dataclasses import dataclass
from math import ceil

from extensions.protocols.clipping import inverse_square_up
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.ring.fixed_point import SAFE_BITS


@dataclass(frozen=True)
class Compared:
    """A comparison of so many elements with so many thresholds each.

    Attributes:
        opened: words, but for the last one.
        dealt: words that follow from masks, but for the last ones.
        flags: words of 64 results each.
    """

    opened: int
    dealt: int
    flags: int

    @property
    def converted(self) -> int:
        """Words opened, with those that make the results integers."""
        return self.opened + self.flags


def compared(elements: int, thresholds: int) -> Compared:
    """Returns the words of a comparison.

    An element is opened. Of four bits the planes are dealt and their 11 products; groups of four
    take 7 wires and 22 products, and the last groups 6 and 15.
    """
    first = ceil(elements / 4)
    second = ceil(thresholds * first / 4)
    third = ceil(second / 4)
    dealt = (4 + 11) * first + 22 * second + 15 * third
    return Compared(elements + 7 * second + 6 * third, dealt, third)


def thresholds_of(plan: StepPlan) -> int:
    """Returns with how many thresholds a step compares a ratio: 0, each octave and their end.

    A ratio is below 2^62 with all its fractional bits, so that octaves beyond need none.
    """
    _, bits = inverse_square_up(plan.max_grad_norm)
    beyond = max(0, bits + sum(plan.norm_bits[0]) - plan.frac_bits)
    assert beyond, "such a ratio is not truncated"
    return 2 + min(plan.clip.live_bits, SAFE_BITS - beyond) - plan.frac_bits
