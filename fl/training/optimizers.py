"""What the server makes of the mean update: a step with momentum, or an adaptive one.

Each sees the mean alone, after the mechanism, so that it costs no privacy and no byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError, UpdateError
from extensions.rules import POSITIVE, Between
from fl.round.machines import Vector

State = Mapping[str, Vector]
"""What an optimizer keeps from round to round, by name; empty before the first."""


@dataclass(frozen=True, kw_only=True)
class ServerOptimizer:
    """Adds `lr` times the mean update to the model; subclasses change the direction.

    Attributes:
        lr: the server's learning rate; 1 is federated averaging.

    Raises:
        ArgumentError: an argument outside its range.

    Source:
        Reddi et al., ICLR 2021, Algorithms 1 and 2.

    Examples:
        >>> fl.protocols.ServerOptimizer(lr=0.5)
        ServerOptimizer(lr=0.5)
    """

    needs: ClassVar[tuple[str, ...]] = ()
    """Names of tensors beside the model that `direction` takes."""

    lr: float = 1.0

    def __post_init__(self) -> None:
        POSITIVE.check("server_optimizer.lr", self.lr)
        for name in ("momentum", "beta1", "beta2"):
            value = getattr(self, name, 0.0)
            Between(0.0, 1.0, below=True).check(f"server_optimizer.{name}", value)

    def direction(self, mean: Vector, extra: Mapping[str, Vector]) -> Vector:
        """Returns what `step` takes as the mean, (size,).

        Args:
            mean: of the clients' updates, (size,).
            extra: the mean of what clients returned beside the model, by name.
        """
        return mean

    def step(self, mean: Vector, state: State) -> tuple[Vector, State]:
        """Returns what is added to the parameters, and the next state.

        Args:
            mean: of the clients' updates, (size,).
            state: what the last successful round returned.
        """
        return self.lr * mean, {}


@dataclass(frozen=True, kw_only=True)
class FedAvgM(ServerOptimizer):
    """Adds momentum to federated averaging, on the server.

    Attributes:
        momentum: momentum coefficient.

    Source:
        Hsu, Qi and Brown, 2019.

    Examples:
        >>> run = fl.FederatedAveraging(
        ...     **setup, aggregator=fl.PlainAggregator(), server_optimizer=fl.FedAvgM(momentum=0.5)
        ... )
        >>> run.fit(rounds=2, test_set=test).accuracy > 0.3
        True
    """

    momentum: float = 0.9

    def step(self, mean: Vector, state: State) -> tuple[Vector, State]:
        direction = mean + self.momentum * state.get("direction", np.zeros_like(mean))
        return self.lr * direction, {"direction": direction}


@dataclass(frozen=True, kw_only=True)
class _Adaptive(ServerOptimizer):
    """Steps by value: the longer its updates have been, the shorter.

    Attributes:
        lr: the server's learning rate.
        beta1: decay of the mean of directions.
        beta2: decay of the mean of squares.
        tau: smallest denominator; a larger one adapts less.
    """

    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        POSITIVE.check("server_optimizer.tau", self.tau)

    def _squares(self, before: Vector, square: Vector) -> Vector:
        raise NotImplementedError

    def step(self, mean: Vector, state: State) -> tuple[Vector, State]:
        direction = state.get("direction", np.zeros_like(mean))
        direction = self.beta1 * direction + (1 - self.beta1) * mean
        squares = self._squares(state.get("squares", np.full_like(mean, self.tau**2)), mean**2)
        change = self.lr * direction / (np.sqrt(squares) + self.tau)
        return change, {"direction": direction, "squares": squares}


@dataclass(frozen=True, kw_only=True)
class FedAdam(_Adaptive):
    """Runs Adam on the server, without bias correction, as in the paper.

    Examples:
        >>> fl.FedAdam(lr=0.02)
        FedAdam(lr=0.02, beta1=0.9, beta2=0.99, tau=0.001)
    """

    def _squares(self, before: Vector, square: Vector) -> Vector:
        return self.beta2 * before + (1 - self.beta2) * square


@dataclass(frozen=True, kw_only=True)
class FedYogi(_Adaptive):
    """Runs Yogi on the server: squares grow and shrink additively.

    Examples:
        >>> fl.FedYogi(lr=0.02)
        FedYogi(lr=0.02, beta1=0.9, beta2=0.99, tau=0.001)
    """

    def _squares(self, before: Vector, square: Vector) -> Vector:
        return before - (1 - self.beta2) * square * np.sign(before - square)


@dataclass(frozen=True, kw_only=True)
class FedAdagrad(_Adaptive):
    """Runs Adagrad on the server: squares add up, and `beta2` is unused.

    Examples:
        >>> fl.FedAdagrad(lr=0.1)
        FedAdagrad(lr=0.1, beta1=0.0, beta2=0.99, tau=0.001)
    """

    beta1: float = 0.0

    def _squares(self, before: Vector, square: Vector) -> Vector:
        return before + square


def apply(
    optimizer: ServerOptimizer,
    mean: Vector,
    of_parameters: npt.NDArray[np.bool_],
    state: State,
    extra: Mapping[str, Vector],
) -> tuple[Vector, State]:
    """Returns what is added to the model, and the next state; all else takes the mean as it is."""
    if mean.shape != of_parameters.shape:
        raise UpdateError(f"the mean has shape {mean.shape}, not {of_parameters.shape}.")
    change = mean.copy()
    direction = optimizer.direction(mean[of_parameters], extra)
    change[of_parameters], state = optimizer.step(direction, state)
    return change, state


def check_state(optimizer: ServerOptimizer, state: State, size: int) -> None:
    """Checks that the optimizer goes on from this state, after a step for so many parameters.

    It is tried with a mean of zeros: names, shapes and types stay, and all values are finite.
    """
    kinds = {name: (str(kept.dtype), kept.shape) for name, kept in state.items()}
    try:
        with np.errstate(all="ignore"):
            change, after = optimizer.step(np.zeros(size), state)
        fits = {name: (str(kept.dtype), kept.shape) for name, kept in after.items()} == kinds
        fits = fits and (str(change.dtype), change.shape) == ("float64", (size,))
        fits = fits and all(np.all(np.isfinite(row)) for row in (change, *after.values()))
    except (TypeError, ValueError):
        fits = False
    if not fits:
        name = type(optimizer).__name__
        rule = f"what {name} keeps of a model with {size} values that are trained"
        hint = "Load a file that `save` wrote."
        raise ArgumentError("optimizer", kinds, rule, hint, code="file")
