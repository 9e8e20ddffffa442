"""DPSGD inside a client: per-record gradients, clipped, with exact discrete noise."""

import copy
import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from logging import getLogger
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, nll_loss
from torch.utils.data import TensorDataset

from extensions.errors import ArgumentError
from extensions.privacy.randomness import SystemSource
from extensions.rules import PART, POSITIVE, Between, Whole, check_fields
from fl.clients import RATE, ClientRound, Loss, seed_generators, trainable
from fl.privacy.clipping import NOISE_UNITS, bits_for, clip_to_grid
from fl.round.machines import Vector

LOG = getLogger(__name__)

_NOISE = Between(2.0**-30, words="finite, at least 9.31e-10, so that integers have room for sums")
"""Of noise as wide as 2^10 units the norm is at most 2^41: 2^22 records stay within 64 bits."""
_LEAST_ROWS, _MOST_VALUES = 64, 2**20
"""Records on which a loss is tried, as many as classes, and values of their outputs."""
_IGNORED = (-100, -1, 255)
"""Labels of positions that losses leave out, as PyTorch and others have them."""
_WEIGHTED = nn.CrossEntropyLoss, nn.NLLLoss
_TOLERANCE = 1e-4
"""Of gradients of a loss in single precision, relative to the largest."""


@dataclass(frozen=True, kw_only=True)
class LocalDPSGD:
    """Steps of DPSGD on a client's records: a `ClientTraining`.

    Each step takes every record with probability `sample_rate`, clips its gradient to norm C,
    adds N(0, (z C)^2) to the sum and goes `lr` times that over the expected number of records.

    Guarantees:
        Each record's gradient is computed by itself, from the record and copies of model and loss,
        so that no other record changes a bit of it, whatever they note or change when they are
        called, as `Embedding(max_norm=...)` its weights. It is clipped on a grid, in exact
        arithmetic of norm at most C, and summed as integers. Noise is exact discrete Gaussian; it,
        the choice of records and dropout come from the operating system's generator and not from
        `ClientRound.seed`, which others know. The number of records is public.

    Edge cases:
        A record whose gradient is NaN or infinite, or that the model or the loss cannot take, with
        whatever error, counts as zeros: a client that withdrew for it would tell everybody that it
        has the record. The log of this process says how many errors there were. A GPU that stops at
        such a record, as at an index out of range, cannot go on: train on a processor then.

    Cost:
        A backward pass a record.

    Attributes:
        steps: in a round.
        sample_rate: of a record, in each step.
        lr: learning rate.
        max_grad_norm: C.
        noise_multiplier: z.
        loss: of outputs and labels. That of a batch is the mean or the sum of that of its records;
            `CrossEntropyLoss` and `NLLLoss`, and the functions of these names, divide by the number
            of positions in a record, and not by their weights, which would undo these.

    Raises:
        ArgumentError: an argument outside its range.

    Source:
        Abadi et al., CCS 2016, Algorithm 1; PEA's DPSGD, for one party alone.
    """

    steps: Annotated[int, Whole(1)]
    sample_rate: Annotated[float, PART]
    lr: Annotated[float, RATE]
    max_grad_norm: Annotated[float, POSITIVE]
    noise_multiplier: Annotated[float, _NOISE]
    loss: Loss

    def __post_init__(self) -> None:
        check_fields(self)
        bits_for(self.max_grad_norm * min(1.0, self.noise_multiplier), NOISE_UNITS)

    def __call__(self, model: nn.Module, records: TensorDataset, round: ClientRound) -> None:
        """Trains the model in place."""
        x, y = records.tensors
        model.train()
        source = SystemSource()
        seed_generators(x.device, secrets.randbits(63))
        deviation = self.noise_multiplier * self.max_grad_norm
        bits = bits_for(min(deviation, self.max_grad_norm), NOISE_UNITS)
        parameters = [p for p in model.parameters() if p.requires_grad]
        size = sum(p.numel() for p in parameters)
        failed: list[Exception] = []
        for _ in range(self.steps):
            total = source.gaussian(0, math.ldexp(deviation, bits), (size,))
            for row in np.flatnonzero(source.bernoulli(0, self.sample_rate, len(x))).tolist():
                try:
                    found = self._of_record(model, x[row : row + 1], y[row : row + 1])
                    total += clip_to_grid(found, self.max_grad_norm, order=2, frac_bits=bits)
                except Exception as error:  # of whatever kind: it is this record's
                    failed.append(error)
            mean = np.ldexp(total.astype(np.float64), -bits) / (self.sample_rate * len(x))
            self._step(parameters, mean)
        if failed:
            told = (round.client, len(failed), failed[0])
            LOG.error("client %d: %d gradients count as zeros in this round: %s", *told)

    def check(self, model: nn.Module, x: Tensor, y: Tensor) -> None:
        """Checks that model and loss train on one record, and the loss is a mean or a sum.

        The model is tried on one record and the loss on several, all of them made up, so that what
        comes of it tells of no record.

        Args:
            model: it stays as it is.
            x: records, of which shape and type alone count.
            y: labels, likewise.

        Raises:
            ArgumentError: they do not; says what does.
        """
        model = copy.deepcopy(model).train()
        device = next(model.parameters()).device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            seed_generators(device, 0)
            with trainable(model, 1):
                whole = model(_made_up(x, 1).to(device))
                parameters = [p for p in model.parameters() if p.requires_grad]
                torch.autograd.grad(whole.sum(), parameters, materialize_grads=True)
            with torch.no_grad():
                for parameter in parameters:  # zeros would hide what the loss does
                    parameter.add_(torch.randn_like(parameter), alpha=0.1)
            size = max(1, whole.numel())
            rows = max(2, min(max(_LEAST_ROWS, size), _MOST_VALUES // size))
            outputs = model.eval()(_made_up(x, rows).to(device))
            name, usual = f"{self.loss!r:.80}", True
            for labels in _labels(y, outputs.cpu()):
                try:
                    fits = self._is_mean_or_sum(outputs, labels.to(device))
                except Exception as error:
                    if not usual:  # labels which other losses take
                        continue
                    kinds = f"outputs of shape {tuple(whole.shape)} and labels of type {y.dtype}"
                    rule = f"one that accepts {kinds}"
                    raise ArgumentError("loss", name, rule, f"{error}", code="type") from error
                if not fits:
                    rule = "the mean or the sum of each record's loss, so that each has its own"
                    hint = (
                        "It divides by a number that depends on the batch, such as its kept "
                        "labels. Use reduction='sum', or torch.nn.CrossEntropyLoss(weight=...)."
                    )
                    raise ArgumentError("loss", name, rule, hint)
                if device.type != "cpu":  # which would not go on after an error
                    break
                usual = False

    def _is_mean_or_sum(self, outputs: Tensor, labels: Tensor) -> bool:
        """Whether the loss of records (records, ...) is the mean or the sum of that of each."""
        together = self._gradient(outputs, labels)
        pairs = zip(torch.split(outputs, 1), torch.split(labels, 1), strict=True)
        apart = torch.cat([self._gradient(*pair) for pair in pairs])
        least = _TOLERANCE * float(together.nan_to_num().abs().max())
        close = partial(torch.allclose, rtol=0.0, atol=least, equal_nan=True)
        return close(together, apart) or close(together, apart / len(outputs))

    def _gradient(self, outputs: Tensor, labels: Tensor) -> Tensor:
        given = outputs.detach().requires_grad_()
        loss = _loss(copy.deepcopy(self.loss), given, labels)
        (gradient,) = torch.autograd.grad(loss, [given])
        return gradient

    def _of_record(self, model: nn.Module, x: Tensor, y: Tensor) -> Vector:
        """Returns the gradient of a record (size,); zeros if it has a value that is not finite.

        What the model or the loss changes of itself is gone then, and the next record's is the same
        with and without this one.
        """
        alone, loss = copy.deepcopy((model, self.loss))
        parameters = [p for p in alone.parameters() if p.requires_grad]
        outputs = alone(x.clone())
        parts = torch.autograd.grad(
            _loss(loss, outputs, y.clone()), parameters, materialize_grads=True
        )
        row = torch.cat([part.reshape(-1) for part in parts])
        found: Vector = row.cpu().numpy().astype(np.float64)
        return found if np.isfinite(found).all() else np.zeros_like(found)

    def _step(self, parameters: list[nn.Parameter], mean: Vector) -> None:
        change = torch.from_numpy(mean).to(torch.float32)
        parts = torch.split(change, [p.numel() for p in parameters])
        with torch.no_grad():
            for parameter, part in zip(parameters, parts, strict=True):
                parameter.add_(part.reshape(parameter.shape).to(parameter.device), alpha=-self.lr)


def _loss(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    """Returns the loss of records, which divides by no weight of theirs where that is known."""
    if loss in (cross_entropy, nll_loss):
        total: Loss = partial(loss, reduction="sum")
    elif type(loss) in _WEIGHTED and getattr(loss, "reduction", "") == "mean":
        total = copy.copy(loss)
        total.reduction = "sum"  # type: ignore[attr-defined]
    else:
        return loss(outputs, labels)
    positions = outputs.numel() / outputs.shape[1]
    return total(outputs, labels) / positions


def _made_up(x: Tensor, rows: int) -> Tensor:
    """Returns so many records of the shape and type of others."""
    shape = (rows, *x.shape[1:])
    return torch.randn(shape) if x.is_floating_point() else torch.ones(shape, dtype=x.dtype)


def _labels(y: Tensor, outputs: Tensor) -> Iterator[Tensor]:
    """Yields made-up labels of the type of others; first such as every loss of that type takes.

    Then floating-point numbers that are classes, or integers that losses ignore in a part of a
    record's positions.
    """
    shape = (len(outputs), *y.shape[1:])
    if y.is_floating_point():
        numbers = torch.rand(shape)
        yield from (numbers, numbers.round(), 2 * numbers.round() - 1)
        return
    last = 1
    for axis in {1, outputs.ndim - 1} - {0}:
        if (*outputs.shape[:axis], *outputs.shape[axis + 1 :]) == shape:
            last = max(1, outputs.shape[axis] - 1)
    count = math.prod(shape)
    if count > last:
        spread = torch.arange(count) % (last + 1)
    else:  # the first ones, as losses mostly ignore one of these, and some of all others
        few = count // 2
        spread = torch.cat([torch.arange(few), torch.linspace(few, last, count - few).round()])
    classes = spread[torch.randperm(count)].to(y.dtype).reshape(shape)
    yield classes
    if len(shape) > 1:
        for ignored in _IGNORED:
            yield classes.masked_fill(torch.rand(shape) < 0.5, ignored)
