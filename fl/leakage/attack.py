"""A record rebuilt from readings of its client's update."""

import copy
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from extensions.errors import ArgumentError
from extensions.rules import POSITIVE
from fl.round.machines import Vector

NO_LEAK = 0.15
"""A matching loss above this counts as no leak."""
PATIENCE, GAIN = 10, 0.99
"""The search ends when this many steps leave the matching loss above this share of what it was."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What the attack rebuilt, and how well its gradient matches.

    Attributes:
        record: the best guess, of the shape of one record.
        label: probabilities of its classes (classes,).
        losses: matching loss after each step: squared distance of the gradients.
    """

    record: Tensor
    label: Tensor
    losses: tuple[float, ...]

    @property
    def loss(self) -> float:
        """The matching loss of `record`, the least of all; infinite if none was finite."""
        return min((loss for loss in self.losses if math.isfinite(loss)), default=math.inf)

    @property
    def matches(self) -> bool:
        """Whether the loss is at most `NO_LEAK`.

        Necessary for a leak, not sufficient: a target that is nearly 0 is easily matched. Where the
        true record is known, `error` decides.
        """
        return self.loss <= NO_LEAK

    def error(self, record: Tensor) -> float:
        """Returns the mean squared error of the guess against the true record."""
        return float(torch.mean((self.record - record.to(self.record.dtype)) ** 2))


def attack(
    model: nn.Module,
    updates: Sequence[Vector],
    *,
    lr: float,
    shape: Sequence[int],
    classes: int,
    steps: int = 100,
    tries: int = 1,
) -> Reconstruction | None:
    """Returns the best match among reconstructions from several readings of an update.

    Readings are tried in their order until one matches, each from several first guesses, since some
    guesses lead nowhere.

    Args:
        model: as the client received it.
        updates: readings of the change by one local step on one record, such as `vectors_sent`.
        lr: learning rate of that step.
        shape: of one record.
        classes: number of outputs.
        steps: of L-BFGS.
        tries: most first guesses for one reading.

    Returns:
        None if there is no reading.
    """
    POSITIVE.check("lr", lr)
    found: list[Reconstruction] = []
    for update, seed in itertools.product(updates, range(tries)):
        found.append(
            deep_leakage(model, -update / lr, shape=shape, classes=classes, steps=steps, seed=seed)
        )
        if found[-1].matches:
            break
    return min(found, key=lambda one: one.loss, default=None)


def deep_leakage(
    model: nn.Module,
    gradient: Vector,
    *,
    shape: Sequence[int],
    classes: int,
    steps: int = 100,
    seed: int = 0,
) -> Reconstruction:
    """Returns the record whose gradient comes closest to a given one, by L-BFGS with lr 1.

    Record and label are both guessed, in double precision. The search ends early where a step
    changes nothing or diverges, or where ten steps lower the loss by less than a hundredth.

    Args:
        model: a smooth one (sigmoids, no dropout), all of whose values are parameters.
        gradient: of the cross-entropy of one record, in the order of the parameters (size,).
        shape: of one record.
        classes: number of outputs.
        steps: of L-BFGS, each of up to 20 evaluations.
        seed: of the first guess.

    Raises:
        ArgumentError: a gradient of another size.

    Source:
        Zhu, Liu and Han, NeurIPS 2019, Algorithm 1.

    Examples:
        >>> import fl.leakage
        >>> model = fl.models.lenet(channels=1, classes=10).double()
        >>> record, label = torch.rand(1, 1, 32, 32).double(), torch.tensor([3])
        >>> loss = torch.nn.functional.cross_entropy(model(record), label)
        >>> parts = torch.autograd.grad(loss, list(model.parameters()))
        >>> gradient = torch.cat([part.flatten() for part in parts]).numpy()
        >>> found = fl.leakage.deep_leakage(model, gradient, shape=(1, 32, 32), classes=10, steps=1)
        >>> found.record.shape
        torch.Size([1, 32, 32])
    """
    model = copy.deepcopy(model).double()
    size = sum(parameter.numel() for parameter in model.parameters())
    if gradient.shape != (size,):
        rule = f"of shape ({size},), as the parameters"
        raise ArgumentError("gradient", gradient.shape, rule, code="shape")
    target = torch.from_numpy(np.asarray(gradient, dtype=np.float64))
    draws = torch.Generator().manual_seed(seed)
    record = torch.randn((1, *shape), generator=draws, dtype=torch.float64).requires_grad_()
    scores = torch.randn((1, classes), generator=draws, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.LBFGS([record, scores], lr=1.0)

    def mismatch() -> Tensor:
        optimizer.zero_grad()
        distance = torch.sum((_gradient(model, record, torch.softmax(scores, -1)) - target) ** 2)
        distance.backward()  # type: ignore[no-untyped-call]
        return distance

    losses: list[float] = []
    best = record.detach()[0].clone(), torch.softmax(scores, -1).detach()[0]
    for _ in range(steps):
        optimizer.step(mismatch)  # type: ignore[no-untyped-call]
        losses.append(float(mismatch().detach()))
        if math.isfinite(losses[-1]) and losses[-1] == min(losses):
            best = record.detach()[0].clone(), torch.softmax(scores, -1).detach()[0]
        if _has_ended(losses):
            break
    return Reconstruction(*best, tuple(losses))


def _gradient(model: nn.Module, record: Tensor, label: Tensor) -> Tensor:
    """Returns the gradient of the record's cross-entropy (size,), which can be differentiated."""
    loss = -torch.sum(label * torch.log_softmax(model(record), -1))
    rows = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    return torch.cat([row.reshape(-1) for row in rows])


def _has_ended(losses: Sequence[float]) -> bool:
    """Returns whether the last step diverged or changed nothing, or ten steps gained little."""
    before = min(losses[:-PATIENCE], default=math.inf)
    unchanged = losses[-1] in losses[-2:-1]
    return not math.isfinite(losses[-1]) or unchanged or min(losses) > GAIN * before
