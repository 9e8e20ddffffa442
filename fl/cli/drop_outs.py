"""Clients that vanish at random, by a public seed."""

from collections.abc import Sequence

import numpy as np

from extensions.errors import ArgumentError
from fl.round.network import DropOut, When

_STAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "chain": (("ready",), ("token", "sum")),
    "chain, led by a client": (("ready",), ("token", "lead.sum")),
    "masked": (("ready",), ("advertise",), ("shares",), ("masked",), ("consent",), ("unmask",)),
    "paillier": (("ready",), ("hello",), ("keys", "update")),
    "paillier, model hidden": (("hello",), ("keys", "update"), ("applied",)),
    "plain": (("ready",), ("update",)),
}
"""What a client sends from stage to stage with each protocol: one of these kinds."""
_WHEN: tuple[When, ...] = ("before", "after")
_STREAM = 1
"""Separates these draws from those by which the run selects clients."""


class RandomDropOuts:
    """From the number of a round to the clients that vanish in it, if they are selected.

    It depends on the arguments and the number alone, so that a resumed run has the same drop-outs.
    A client vanishes with probability `rate`, before or after its message of one of the protocol's
    stages, all of which are equally likely.
    """

    def __init__(self, protocol: str, rate: float, clients: int, seed: int) -> None:
        if not 0.0 <= rate < 1.0:
            raise ArgumentError("drop_out", rate, "in [0, 1)")
        self._stages = _STAGES[protocol]
        self._rate = rate
        self._clients = clients
        self._seed = seed

    def __call__(self, number: int) -> Sequence[DropOut]:
        """Returns the drop-outs of the round of that number."""
        draws = np.random.default_rng([self._seed, number, _STREAM])
        gone = np.flatnonzero(draws.random(self._clients) < self._rate)
        stages = draws.integers(len(self._stages), size=len(gone))
        sides = draws.integers(len(_WHEN), size=len(gone))
        return [
            DropOut(client, kind, _WHEN[side])
            for client, stage, side in zip(gone.tolist(), stages, sides, strict=True)
            for kind in self._stages[stage]
        ]
