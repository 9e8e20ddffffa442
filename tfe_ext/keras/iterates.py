"""A model's variables as shares and as matrices, and shares of their shapes beside them.

A kernel of a convolution is (height, width, in, out); its matrix is (out, in x height x width), in
the order of `extensions.layers.stages.trained.Convolution`. A bias of one is (out, 1, 1).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.layers.passes import Parameters, forward
from extensions.protocols.dpsgd import Sums
from extensions.protocols.optimizer import MODEL, TOTAL, Store
from extensions.protocols.updates import FIRST, SECOND, VELOCITY
from extensions.ring.fixed_point import Integers
from tfe_ext.keras.layers import Chain
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.shares import Replicated, Share
from tfe_ext.ring.variables import assign, from_summands, in_variables, present


def parameters_of(ring: ABY3Ring, chain: Chain) -> Parameters:
    """Returns the present weights, (out, in), and biases."""
    return matrices(ring, chain, [share_of(ring, variable) for variable in chain.flat])


def matrices(ring: ABY3Ring, chain: Chain, shares: Iterable[Share]) -> Parameters:
    """Returns shares in the shapes of a model's variables as weights, (out, in), and biases."""
    each = iter(shares)
    return [
        (matrix_of(ring, next(each)), None if bias is None else next(each).reshape(-1))
        for _, bias in chain.variables
    ]


def logits_of(ring: ABY3Ring, chain: Chain, x: Share) -> Share:
    """Returns the logits of rows (rows, features)."""
    features = chain.network.widths[0]
    if x.shape[1:] != (features,):
        raise ArgumentError("x", x.shape, f"(rows, {features})", code="shape")
    logits: Share = forward(ring, chain.network, parameters_of(ring, chain), x).logits
    return logits


def store(
    ring: ABY3Ring, variables: Sequence[Replicated], shares: Sequence[Share]
) -> list[Replicated]:
    """Stores the shares, every part on its server; returns what is stored.

    One round for all shares that are not replicated yet.
    """
    replicated = ring.replicate(shares)
    for variable, share in zip(variables, replicated, strict=True):
        assign(variable, share)
    return replicated


def opened(share: Share) -> tf.Tensor:
    """Returns what the script gets of a share: its value, **opened**."""
    return tf.add_n([part for part in share.additive3().parts if part is not None])


def matrix_of(ring: ABY3Ring, kernel: Share) -> Share:
    """Returns shares of a kernel's matrix, (out, in); local."""
    if len(kernel.shape) == 2:
        return kernel.T
    across = kernel.T  # (out, in, width, height)
    return ring.gather(across.reshape(across.shape[0], -1), _columns(kernel.shape))


def kernel_of(ring: ABY3Ring, matrix: Share, shape: Sequence[int]) -> Share:
    """Returns shares of the kernel of that shape, given those of its matrix; local."""
    if len(shape) == 2:
        return matrix.T
    across = ring.gather(matrix, np.argsort(_columns(shape)))
    return across.reshape(*reversed(shape)).T


def _columns(shape: Sequence[int]) -> Integers:
    """Where each column (in, row, column) of a matrix is in a kernel read from its end."""
    height, width, channels, _ = shape
    order = np.arange(channels * width * height, dtype=np.int64)
    return order.reshape(channels, width, height).transpose(0, 2, 1).reshape(-1)


def to_matrix(values: Any) -> tf.Tensor:
    """Returns an array of a kernel's shape as its matrix, and one of a bias as a vector; local."""
    if len(values.shape) == 4:
        return tf.reshape(tf.transpose(values, (3, 2, 0, 1)), (values.shape[3], -1))
    return tf.transpose(values) if len(values.shape) == 2 else tf.reshape(values, (-1,))


def from_matrix(values: Any, shape: Sequence[int]) -> tf.Tensor:
    """Returns the array of that shape of which `to_matrix` made this one; local."""
    if len(shape) == 4:
        height, width, channels, outputs = shape
        across = tf.reshape(values, (outputs, channels, height, width))
        return tf.transpose(across, (2, 3, 1, 0))
    return tf.transpose(values) if len(shape) == 2 else tf.reshape(values, shape)


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
