"""DPSGD inside a client: per-record gradients, clipped, with exact discrete noise."""

import copy
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from logging import getLogger

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from extensions.checks import check_count, check_positive
from extensions.errors import ArgumentError
from extensions.privacy.randomness import SystemSource
from fl.clients import ClientRound, Loss, check_rate, seed_generators, trainable
from fl.privacy.clipping import NOISE_UNITS, bits_for, clip_to_grid
from fl.round.machines import Vector

LOG = getLogger(__name__)

_LEAST_NOISE = 2.0**-30
"""Of noise as wide as 2^10 units the norm is at most 2^41: 2^22 records stay within 64 bits."""
_MOST_ROWS, _MOST_VALUES = 64, 2**20
"""Records on which a loss is tried, and values of their outputs."""
_TOLERANCE = 1e-4
"""Of gradients of a loss in single precision, relative to the largest."""


@dataclass(frozen=True, kw_only=True)
class LocalDPSGD:
    """Steps of DPSGD on a client's records: a `ClientTraining`.

    Each step takes every record with probability `sample_rate`, clips its gradient to norm C,
    adds N(0, (z C)^2) to the sum and goes `lr` times that over the expected number of records.

    Guarantees:
        Each record's gradient is computed by itself, from the model, its buffers as they were and
        the record, so that no other record changes a bit of it. It is clipped on a grid, in exact
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
            `CrossEntropyLoss` and `NLLLoss` divide by the number of positions in a record, and not
            by their weights, which would undo these.

    Raises:
        ArgumentError: an argument outside its range.

    Source:
        Abadi et al., CCS 2016, Algorithm 1; PEA's DPSGD, for one party alone.
    """

    steps: int
    sample_rate: float
    lr: float
    max_grad_norm: float
    noise_multiplier: float
    loss: Loss

    def __post_init__(self) -> None:
        check_count("steps", self.steps, 1)
        check_rate(self.lr)
        for name in ("max_grad_norm", "noise_multiplier"):
            check_positive(name, getattr(self, name))
        if self.noise_multiplier < _LEAST_NOISE:
            allowed = f"at least {_LEAST_NOISE:.3g}, so that integers have room for sums"
            raise ArgumentError("noise_multiplier", self.noise_multiplier, allowed)
        bits_for(self.max_grad_norm * min(1.0, self.noise_multiplier), NOISE_UNITS)
        if not 0.0 < self.sample_rate <= 1.0:
            raise ArgumentError("sample_rate", self.sample_rate, "above 0, at most 1")

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
        buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        failed: list[Exception] = []
        for _ in range(self.steps):
            total = source.gaussian(0, math.ldexp(deviation, bits), (size,))
            for row in np.flatnonzero(source.bernoulli(0, self.sample_rate, len(x))).tolist():
                try:
                    loss = self._loss(model(x[row : row + 1].clone()), y[row : row + 1].clone())
                    parts = torch.autograd.grad(loss, parameters, materialize_grads=True)
                    total += clip_to_grid(_row(parts), self.max_grad_norm, order=2, frac_bits=bits)
                except Exception as error:  # of whatever kind: it is this record's
                    failed.append(error)
                for buffer, first in buffers:
                    buffer.copy_(first)
            mean = np.ldexp(total.astype(np.float64), -bits) / (self.sample_rate * len(x))
            self._step(parameters, mean)
        if failed:
            told = (round.client, len(failed), failed[0])
            LOG.error("client %d: %d gradients count as zeros in this round: %s", *told)

    def check(self, model: nn.Module, x: Tensor, y: Tensor) -> None:
        """Returns only if model and loss train on one record, and the loss is a mean or a sum.

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
            rows = max(2, min(_MOST_ROWS, _MOST_VALUES // max(1, whole.numel())))
            outputs = model.eval()(_made_up(x, rows).to(device))
            labels = _labels(y, outputs).to(device)
            name = f"{self.loss!r:.80}"
            try:
                together = self._gradient(outputs, labels)
                pairs = zip(torch.split(outputs, 1), torch.split(labels, 1), strict=True)
                apart = torch.cat([self._gradient(*pair) for pair in pairs])
            except Exception as error:
                kinds = f"outputs of shape {tuple(whole.shape)} and labels of type {y.dtype}"
                raise ArgumentError("loss", name, f"one that takes {kinds}: {error}") from error
        least = _TOLERANCE * float(together.nan_to_num().abs().max())
        close = partial(torch.allclose, rtol=0.0, atol=least, equal_nan=True)
        if not (close(together, apart) or close(together, apart / rows)):
            allowed = "the mean or the sum of what it is of each record, to be one for each"
            advice = (
                "It divides by something of its batch. Take reduction='sum', or "
                "torch.nn.CrossEntropyLoss(weight=...)."
            )
            raise ArgumentError("loss", name, allowed, advice)

    def _gradient(self, outputs: Tensor, labels: Tensor) -> Tensor:
        given = outputs.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self._loss(given, labels), [given])
        return gradient

    def _loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Returns the loss of records, which divides by no weight of theirs where that is known."""
        reduction = getattr(self.loss, "reduction", None)
        if type(self.loss) not in (nn.CrossEntropyLoss, nn.NLLLoss) or reduction != "mean":
            return self.loss(outputs, labels)
        total = copy.copy(self.loss)
        total.reduction = "sum"  # type: ignore[attr-defined]
        positions = outputs.numel() / outputs.shape[1]
        return total(outputs, labels) / positions

    def _step(self, parameters: list[nn.Parameter], mean: Vector) -> None:
        change = torch.from_numpy(mean).to(torch.float32)
        parts = torch.split(change, [p.numel() for p in parameters])
        with torch.no_grad():
            for parameter, part in zip(parameters, parts, strict=True):
                parameter.add_(part.reshape(parameter.shape).to(parameter.device), alpha=-self.lr)


def _row(parts: Sequence[Tensor]) -> Vector:
    """Returns the gradient of a record (size,); zeros if it has a value that is not finite."""
    found: Vector = torch.cat([part.reshape(-1) for part in parts]).cpu().numpy().astype(np.float64)
    return found if np.isfinite(found).all() else np.zeros_like(found)


def _made_up(x: Tensor, rows: int) -> Tensor:
    """Returns so many records of the shape and type of others."""
    shape = (rows, *x.shape[1:])
    return torch.randn(shape) if x.is_floating_point() else torch.ones(shape, dtype=x.dtype)


def _labels(y: Tensor, outputs: Tensor) -> Tensor:
    """Returns made-up labels of the type of others, of all classes where there is room."""
    shape = (len(outputs), *y.shape[1:])
    if y.is_floating_point():
        return torch.rand(shape)
    numbers = shape[1:] == outputs.shape[2:] and outputs.ndim > 1 and outputs.shape[1] > 1
    last = outputs.shape[1] - 1 if numbers else 1
    count = math.prod(shape)
    spread = torch.arange(count) % (last + 1)
    if count <= last:
        spread = torch.linspace(0, last, count).round()
    return spread.to(y.dtype).reshape(shape)
