"""What a training goes on from beside the weights: last update, moments, a sum of iterates."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.protocols.optimizer import TOTAL
from extensions.protocols.updates import FIRST, SECOND, VELOCITY
from tfe_ext.keras.layers import Chain
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.shares import Replicated
from tfe_ext.ring.variables import ShareVariable


class Iterates:
    """Shares on the servers, one of the shape of each variable of a model.

    Args:
        ring: that of the protocol.
        chain: the model.
    """

    def __init__(self, ring: ABY3Ring, chain: Chain) -> None:
        self._ring = ring
        self._shapes = [tuple(variable.shape.as_list()) for variable in chain.flat]
        self._variables = tuple(chain.flat)
        self._kept: dict[str, list[ShareVariable]] = {}

    def are_of(self, chain: Chain) -> bool:
        """Whether they are beside this model's variables."""
        return self._variables == tuple(chain.flat)

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def of(self, name: str) -> list[ShareVariable]:
        """Returns the shares of that name, zeros at first."""
        if name not in self._kept:
            zeros = [np.zeros(shape, np.int64) for shape in self._shapes]
            self._keep(name, [[zero] * ABY3Ring.parties for zero in zeros])
        return self._kept[name]

    def drop(self, name: str) -> None:
        """Forgets the shares of that name."""
        self._kept.pop(name, None)

    def shares(self, rank: int) -> dict[str, tf.Tensor]:
        """Returns x_R of each, on the device of server R; secret."""
        return {
            f"{name}_{i}": variable.summand(rank)
            for name, variables in self._kept.items()
            for i, variable in enumerate(variables)
        }

    def restore(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Puts what `shares` returned for all servers, and nothing else, in their place.

        Raises:
            ArgumentError: they are of another model.
        """
        self._kept = {}
        for name in (VELOCITY, FIRST, SECOND, TOTAL):
            if not any(key.startswith(f"{name}_") for own in parts for key in own):
                continue
            keys = [f"{name}_{i}" for i in range(len(self._shapes))]
            columns = [[own[key] for own in parts if key in own] for key in keys]
            given = [{tuple(part.shape) for part in column} for column in columns]
            if given != [{shape} for shape in self._shapes]:
                raise ArgumentError("shares", given, f"of shapes {self._shapes}", code="shape")
            self._keep(name, columns)

    def _keep(self, name: str, columns: Sequence[Sequence[Any]]) -> None:
        """Stores x_0, x_1 and x_2 of each share, every one on the servers that hold it."""
        devices, found = self._ring.servers.devices, []
        for summands in columns:
            parts = []
            for rank, device in enumerate(devices):
                with tf.device(device):
                    for held in (rank, (rank + 1) % ABY3Ring.parties):
                        parts.append(tf.constant(summands[held], tf.int64))
            found.append(ShareVariable(Replicated(devices, parts)))
        self._kept[name] = found
