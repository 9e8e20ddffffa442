"""A record rebuilt from readings of its client's update."""

import copy
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from extensions.checks import check_positive
from extensions.errors import ArgumentError
from fl.round.machines import Vector

NO_LEAK = 0.15
"""A matching loss above this counts as no leak."""
PATIENCE, GAIN = 10, 0.99
"""So many steps must bring the matching loss below this share of what it was."""


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
        """The matching loss of `record`, the least of all; infinite if there was no finite one."""
        return min((loss for loss in self.losses if math.isfinite(loss)), default=math.inf)

    @property
    def matches(self) -> bool:
        """Whether the loss is at most `NO_LEAK`.

        Necessary for a leak, not sufficient: a target that is nearly 0 is easily matched. With the
        record at hand, `error` decides.
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
    """Returns the reconstruction that matches best of those from several readings of an update.

    They are tried in their order, each from other first guesses, since some lead nowhere, until one
    matches.

    Args:
        model: as the client received it.
        updates: what one local step on one record may have changed, such as `vectors_sent`.
        lr: learning rate of that step.
        shape: of one record.
        classes: number of outputs.
        steps: of L-BFGS.
        tries: first guesses of a reading, at most.

    Returns:
        None if there is no reading.
    """
    check_positive("lr", lr)
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

    Record and label are both guessed. It works in double precision, and ends early where a step
    changes nothing any more or leaves the finite numbers, or ten steps gain less than a hundredth.

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
    """
    model = copy.deepcopy(model).double()
    parameters = list(model.parameters())
    size = sum(parameter.numel() for parameter in parameters)
    if gradient.shape != (size,):
        raise ArgumentError("gradient", gradient.shape, f"of shape ({size},), as the parameters")
    target = torch.from_numpy(np.asarray(gradient, dtype=np.float64))
    draws = torch.Generator().manual_seed(seed)
    record = torch.randn((1, *shape), generator=draws, dtype=torch.float64).requires_grad_()
    scores = torch.randn((1, classes), generator=draws, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.LBFGS([record, scores], lr=1.0)

    def mismatch() -> Tensor:
        optimizer.zero_grad()
        label = torch.softmax(scores, -1)
        loss = -torch.sum(label * torch.log_softmax(model(record), -1))
        rows = torch.autograd.grad(loss, parameters, create_graph=True)
        distance = torch.sum((torch.cat([row.reshape(-1) for row in rows]) - target) ** 2)
        distance.backward()  # type: ignore[no-untyped-call]
        return distance

    losses: list[float] = []
    best = record.detach()[0].clone(), torch.softmax(scores, -1).detach()[0]
    for _ in range(steps):
        optimizer.step(mismatch)  # type: ignore[no-untyped-call]
        losses.append(float(mismatch().detach()))
        if not math.isfinite(losses[-1]):
            break
        if losses[-1] == min(losses):
            best = record.detach()[0].clone(), torch.softmax(scores, -1).detach()[0]
        before = min(losses[:-PATIENCE], default=math.inf)
        if losses[-1] in losses[-2:-1] or min(losses) > GAIN * before:
            break
    return Reconstruction(*best, tuple(losses))
