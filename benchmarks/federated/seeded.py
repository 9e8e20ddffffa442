"""Laplace noise that is quick and can be repeated: for comparing runs, never for data."""

import numpy as np

import fl
from fl.clipping import norm_of


class SeededLaplace(fl.LocalDP):
    """What `fl.LocalDP` does with Laplace noise, but with draws that everybody can replay.

    Clip, scale and ledger are those of `fl.LocalDP`. Its noise is on a grid of 2^-20 of the scale
    and exact; this noise is in double precision, of the same law to that grid. It **protects
    nothing**, and takes some 50 nanoseconds a value instead of some 15 microseconds.

    Args:
        epsilon: of one update.
        clip: bound of the update's L1 norm.
        seed: of the noise, with round and client.
    """

    def __init__(self, *, epsilon: float, clip: float, seed: int) -> None:
        super().__init__(epsilon=epsilon, clip=clip, noise="laplace")
        self._seed = seed

    def client(self, update: fl.Vector, round: fl.Round, client: int) -> fl.Vector:
        """Returns the update clipped, with noise."""
        draws = np.random.default_rng([self._seed, round.number, client])
        clipped = update * (self.clip / max(self.clip, norm_of(update, 1)))
        return clipped + draws.laplace(0.0, self.scale, update.shape)
