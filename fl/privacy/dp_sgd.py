"""DPSGD inside a client: per-record gradients, clipped, with exact discrete noise."""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

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

_LEAST_NOISE = 2.0**-30
"""Of noise as wide as 2^10 units the norm is at most 2^41: 2^22 records stay within 64 bits."""


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
        A record whose gradient is NaN or infinite counts as zeros: a client that withdrew for it
        would tell everybody that it has the record.

    Cost:
        A backward pass a record.

    Attributes:
        steps: in a round.
        sample_rate: of a record, in each step.
        lr: learning rate.
        max_grad_norm: C.
        noise_multiplier: z.
        loss: of outputs and labels.

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
        for _ in range(self.steps):
            total = source.gaussian(0, math.ldexp(deviation, bits), (size,))
            for row in np.flatnonzero(source.bernoulli(0, self.sample_rate, len(x))).tolist():
                with trainable(model, 1):
                    outputs = model(x[row : row + 1])
                    loss = self.loss(outputs, y[row : row + 1])
                    parts = torch.autograd.grad(loss, parameters, materialize_grads=True)
                for buffer, first in buffers:
                    buffer.copy_(first)
                total += clip_to_grid(_row(parts), self.max_grad_norm, order=2, frac_bits=bits)
            mean = np.ldexp(total.astype(np.float64), -bits) / (self.sample_rate * len(x))
            self._step(parameters, mean)

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
