"""What a training goes on from: a model's variables, and shares of their shapes beside them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.protocols.dpsgd import Sums
from extensions.protocols.optimizer import MODEL, TOTAL, Store
from extensions.protocols.updates import FIRST, SECOND, VELOCITY
from tfe_ext.keras.layers import Chain
from tfe_ext.keras.steps.kernels import kernel_of
from tfe_ext.keras.steps.step import matrices, parameters_of, store
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.shares import Replicated, Share
from tfe_ext.ring.variables import assign, from_summands, in_variables, present


class Iterates(Store):
    """Shares beside a model on the servers, which a graph reads and writes whenever it runs.

    Those of `before` are these, if they are of the same variables.
    """

    def __init__(self, ring: ABY3Ring, chain: Chain, before: "Iterates | None" = None) -> None:
        self._ring, self._chain = ring, chain
        self._kept: dict[str, list[Replicated]] = {} if before is None else before._kept

    def are_of(self, chain: Chain) -> bool:
        """Whether they are beside this model's variables."""
        return tuple(self._chain.flat) == tuple(chain.flat)

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def of(self, name: str) -> list[Replicated]:
        """Returns the variables of that name, which begin as zeros; not from inside a graph."""
        if name not in self._kept:
            zeros = [np.zeros(shape, np.int64) for shape in self._shapes]
            self._keep(name, [[zero] * ABY3Ring.parties for zero in zeros])
        return self._kept[name]

    def drop(self, name: str) -> None:
        """Forgets the shares of that name."""
        self._kept.pop(name, None)

    def read(self, name: str) -> Sums:
        """Returns the present shares; but for the model, None of what is frozen."""
        if name == MODEL:
            return parameters_of(self._ring, self._chain)
        pairs = matrices(self._ring, self._chain, map(present, self.of(name)))
        return [
            (weight if own.has_weight else None, bias if own.has_bias else None)
            for (weight, bias), own in zip(pairs, self._chain.network.trained, strict=True)
        ]

    def write(self, changed: Mapping[str, Sums]) -> None:
        """Stores shares on their servers; one round for all that are not replicated yet.

        The velocity is what the model was, less what it is, both as they are stored.
        """
        model = self._chain.held
        before = [*map(present, model)]
        items = [
            (name, i, share)
            for name, pairs in changed.items()
            if name != VELOCITY
            for i, share in self._shaped(pairs)
        ]
        places = [(model if name == MODEL else self.of(name))[i] for name, i, _ in items]
        stored = store(self._ring, places, [share for *_, share in items])
        for (name, i, _), now in zip(items, stored, strict=True):
            if name == MODEL and VELOCITY in changed:
                assign(self.of(VELOCITY)[i], before[i] - now)

    def _shaped(self, pairs: Sums) -> Iterator[tuple[int, Share]]:
        """Yields shares in the shapes of the variables, and of which of these; no None."""
        i = 0
        for parts, variables in zip(pairs, self._chain.variables, strict=True):
            for part, variable, turned in zip(parts, variables, (True, False), strict=True):
                if part is not None:
                    shape = variable.shape.as_list()
                    yield i, kernel_of(self._ring, part, shape) if turned else part.reshape(*shape)
                i += variable is not None

    def shares(self, rank: int) -> dict[str, tf.Tensor]:
        """Returns x_R of each that is beside the model, on the device of server R; secret."""
        return {
            f"{name}_{i}": variable.parts[2 * rank].read_value()
            for name, variables in self._kept.items()
            for i, variable in enumerate(variables)
        }

    def restore(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Puts what `shares` returned for all servers, and nothing else, in their place."""
        self._kept.clear()
        for name in (VELOCITY, FIRST, SECOND, TOTAL):
            if not any(key.startswith(f"{name}_") for own in parts for key in own):
                continue
            keys = [f"{name}_{i}" for i in range(len(self._shapes))]
            columns = [[own[key] for own in parts if key in own] for key in keys]
            given = [{tuple(part.shape) for part in column} for column in columns]
            if given != [{shape} for shape in self._shapes]:
                raise ArgumentError("shares", given, f"of shapes {self._shapes}", code="shape")
            self._keep(name, columns)

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [tuple(variable.shape.as_list()) for variable in self._chain.flat]

    def _keep(self, name: str, columns: Sequence[Sequence[Any]]) -> None:
        """Stores x_0, x_1 and x_2 of each share, every one on the servers that hold it."""
        devices = self._ring.servers.devices
        self._kept[name] = [in_variables(from_summands(devices, column)) for column in columns]
