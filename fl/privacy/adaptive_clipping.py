"""A clipping norm that follows a quantile of the norms of updates, privately."""

import math
from dataclasses import dataclass
from typing import Annotated

from extensions.errors import ArgumentError
from extensions.rules import POSITIVE, Between, check_fields

_LARGEST_RATE = 10.0
_LARGEST_CHANGE = 50.0
"""Natural logarithm of the most by which noise may change the bound in a round."""
_LARGEST_CLIP = 2.0**100


@dataclass(frozen=True, kw_only=True)
class AdaptiveClipping:
    """Moves the clipping norm towards a quantile of the updates' norms.

    Every client adds +1/2 to a sum if its norm is within the bound C, -1/2 if it is not. With noise
    of standard deviation `count_noise` on that sum, b is the share of those within, and C becomes
    C exp(-lr (b - quantile)).

    Attributes:
        quantile: share of the clients whose norm should be within the bound.
        lr: learning rate, at most 10.
        count_noise: standard deviation; None: a twentieth of the clients expected in a round.

    Raises:
        ArgumentError: an argument outside its range.

    Source:
        Andrew, Thakkar, McMahan and Ramaswamy, NeurIPS 2021, Algorithm 1.

    Examples:
        >>> adaptive = fl.AdaptiveClipping(quantile=0.5, count_noise=1.0)
        >>> settings = {"adaptive": adaptive, "sampling": "fixed"}
        >>> private = fl.CentralDP(noise_multiplier=1.0, **settings)
        >>> run = fl.FederatedAveraging(**setup, aggregator=fl.PlainAggregator(), mechanism=private)
        >>> len(run.fit(rounds=1)[0].included)
        1
    """

    quantile: Annotated[float, Between(0.0, 1.0)] = 0.5
    lr: Annotated[float, Between(0.0, _LARGEST_RATE, above=True)] = 0.2
    count_noise: Annotated[float | None, POSITIVE] = None

    def __post_init__(self) -> None:
        check_fields(self)

    def noise_of_count(self, expected: float) -> float:
        """Returns the standard deviation of the noise of the count, for so many clients."""
        return expected / 20.0 if self.count_noise is None else self.count_noise

    def noise_of_sum(self, noise_multiplier: float, expected: float) -> float:
        """Returns the noise multiplier of the sum such that sum and count cost one release of z.

        A client moves the count by a half, so both together are one Gaussian release.

        Args:
            noise_multiplier: z, of sum and count together.
            expected: clients in a round.

        Raises:
            ArgumentError: the count alone costs more than that.

        Source:
            the same, Theorem 1.
        """
        count = self.noise_of_count(expected)
        left = 1.0 / noise_multiplier**2 - 1.0 / (2.0 * count) ** 2
        if left <= 0.0:
            hint = "Give it, select more clients, or lower {noise_multiplier}."
            rule = Between(noise_multiplier / 2.0, above=True)
            raise ArgumentError("count_noise", count, rule, hint)
        return 1.0 / math.sqrt(left)

    def next_clip(self, clip: float, within: float) -> float:
        """Returns the bound of the next round, from the noisy share of those within this one.

        At most 2^100, which no update in single precision has use for.
        """
        change = -self.lr * (within - self.quantile)
        factor = math.exp(max(-_LARGEST_CHANGE, min(_LARGEST_CHANGE, change)))
        return min(clip * factor, _LARGEST_CLIP)
