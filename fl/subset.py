"""A part of an update's values in each round, the same for all clients: fewer bytes."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.rules import PART, Whole
from fl.privacy.mechanism import Mechanism
from fl.round.aggregator import Aggregator
from fl.round.machines import Round, Vector


class RandomSubset(Mechanism):
    """Exchanges a random part of the values in each round, to save bytes.

    The part follows from a public seed and the round's number, so it costs no byte and reveals
    nothing. Every aggregator sums it like a whole update. A client's changes of the other values
    are lost. It adds no privacy.

    Args:
        share: of the values, in (0, 1].
        seed: public.

    Raises:
        ArgumentError: an argument outside its range.

    Source:
        Konecny et al., 2016, section 2 ("random mask").

    Examples:
        >>> run = fl.FederatedAveraging(
        ...     **setup, aggregator=fl.PlainAggregator(), mechanism=fl.RandomSubset(share=0.1)
        ... )
        >>> run.fit(rounds=1)[0].bytes_up < 300
        True
    """

    exchange = "delta"
    parameters_only = True

    def __init__(self, *, share: float, seed: int = 0) -> None:
        PART.check("share", share)
        Whole(0).check("seed", seed)
        self.share, self.seed = share, seed
        self._size = 0

    def parameters(self) -> dict[str, Any]:
        """Returns the arguments."""
        return {"share": self.share, "seed": self.seed}

    def check_aggregator(self, aggregator: Aggregator, size: int, cohort: int) -> None:
        """Takes note of how many values the model has."""
        self._size = size
        self.extra_values = math.ceil(self.share * size) - size

    def places(self, number: int) -> npt.NDArray[np.int64]:
        """Returns which values a round exchanges, in ascending order."""
        draws = np.random.default_rng([self.seed, number])
        count = self._size + self.extra_values
        return np.sort(draws.choice(self._size, count, replace=False))

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        """Returns the values of this round alone."""
        return update[self.places(round.number)]

    def server(self, mean: Vector, round: Round, included: tuple[int, ...]) -> Vector:
        """Returns the mean at its places, and zeros elsewhere."""
        change = np.zeros(self._size)
        change[self.places(round.number)] = mean
        return change
