"""What CrypTen parties make of convolutional models: one step, and predictions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from crypten_ext import nn, optim
from crypten_ext.nn.batches import poisson_batches
from crypten_ext.nn.provenance import provenance_of
from crypten_ext.processes.worker import Context
from extensions.privacy.randomness import InsecureSeededSource
from tests.helpers.party_tasks.protocols import nothing_revealed, opened, rounds, session

import crypten
from crypten.mpc import MPCTensor

CLASSES, RECORDS = 3, 6
FROZEN = {
    "parts": ("0.weight", "0.bias", "3.weight", "7.bias"),
    "pair": ("0.other.weight", "0.other.bias"),
}
"""Of which models which parameters are not trained."""


class Sum(torch.nn.Module):
    """Two branches, whose results are added."""

    def __init__(self, one: torch.nn.Module, other: torch.nn.Module) -> None:
        super().__init__()
        self.one, self.other = one, other

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x) + self.other(x)


def records(shape: tuple[int, ...], rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a party's images, of norm 2, and labels."""
    draws = np.random.default_rng(rank)
    x = draws.standard_normal((RECORDS, *shape))
    x *= 2.0 / np.linalg.norm(x.reshape(RECORDS, -1), axis=1).reshape(-1, *[1] * len(shape))
    return x, draws.integers(0, CLASSES, RECORDS)


def plaintext(kind: str) -> tuple[torch.nn.Sequential, tuple[int, ...]]:
    """Returns PyTorch's model, the same at every call, and the shape of a record."""
    torch.manual_seed(3)
    own = torch.nn
    if kind == "signals":
        layers = [
            *(own.Conv1d(2, 4, 3, stride=2, padding=1, bias=False), own.Tanh(), own.Flatten()),
            own.Linear(16, CLASSES),
        ]
        return own.Sequential(*layers), (2, 8)
    if kind == "pair":
        thin = own.Sequential(own.Linear(8, 2, bias=False), own.Linear(2, 6, bias=False))
        layers = [Sum(thin, own.Linear(8, 6)), own.Tanh(), own.Linear(6, CLASSES)]
        return own.Sequential(*layers), (8,)
    if kind == "residual":
        inner = own.Sequential(own.Conv2d(4, 4, 3, padding=1), own.ReLU())
        inner = Sum(own.Sequential(own.Conv2d(4, 4, 1), own.Tanh()), Sum(inner, own.Identity()))
        layers = [
            *(own.Conv2d(2, 4, 3, padding=1), own.Tanh(), own.AvgPool2d(2)),
            *(Sum(own.Identity(), inner), own.Tanh(), own.Flatten(), own.Linear(36, CLASSES)),
        ]
        return own.Sequential(*layers), (2, 6, 7)
    layers = [
        *(own.Conv2d(2, 4, 3, padding=1), own.Tanh(), own.AvgPool2d(2)),
        *(own.Conv2d(4, 6, 2, groups=2), own.ReLU(), own.MaxPool2d(2, stride=1)),
        *(own.Flatten(), own.Linear(6, 5), own.Tanh(), own.Linear(5, CLASSES)),
    ]
    return own.Sequential(*layers).double().float(), (2, 6, 7)


def encrypted(kind: str, style: str) -> Any:
    """Returns the model as CrypTen has it: converted, or written with CrypTen's modules."""
    model, shape = plaintext(kind)
    if style == "converted":
        return crypten.nn.from_pytorch(model, torch.zeros(1, *shape)).encrypt()
    layers = []
    for layer in model:
        layers.append(_of_the_host(layer))
        for name, values in layer.named_parameters():
            layers[-1].set_parameter(name, values.detach().clone().requires_grad_())
    return crypten.nn.Sequential(*layers).encrypt()


def _of_the_host(layer: Any) -> Any:
    kind, host = type(layer).__name__, crypten.nn
    if kind == "Tanh":
        return nn.Tanh()
    if kind.startswith("Conv"):
        arguments = [layer.in_channels, layer.out_channels]
        sizes = [layer.kernel_size, layer.stride, layer.padding, layer.dilation]
        sizes = [size[0] for size in sizes]
        return getattr(host, kind)(*arguments, *sizes, layer.groups, layer.bias is not None)
    if kind.endswith("Pool2d"):
        return getattr(host, kind)(layer.kernel_size, stride=layer.stride)
    if kind == "Linear":
        return host.Linear(layer.in_features, layer.out_features)
    return getattr(host, kind)()


def steps(
    context: Context, runs: list[tuple[str, str]], bounds: dict[str, float]
) -> dict[str, dict[str, Any]]:
    """Returns for each (kind, style) a batch, the model around one step on it, and predictions."""
    found = {}
    with session():
        for kind, style in runs:
            found[f"{kind} {style}"] = _step(context.rank, kind, style, bounds[kind])
    return found


def _step(rank: int, kind: str, style: str, max_grad_norm: float) -> dict[str, Any]:
    model = encrypted(kind, style)
    x, y = records(plaintext(kind)[1], rank)
    names = [name.removesuffix(".data") for name, _ in model.named_parameters()]
    for name, parameter in zip(names, model.parameters(), strict=True):
        parameter.requires_grad = name not in FROZEN.get(kind, ())
    optimizer = optim.DPSGD(model, 1.0, max_grad_norm, noise_multiplier=0.0, sample_rate=0.8)
    ((batch, targets),) = _batches(x, y)
    padding = MPCTensor.from_shares(provenance_of(batch).batch.shared.padding, precision=0)
    seen, before = opened([batch, targets, padding]), opened(model.parameters())
    with nothing_revealed():
        counts = [rounds()]
        optimizer.zero_grad()
        nn.BCEWithLogitsLoss()(model(batch), targets).backward()
        counts.append(rounds())
        optimizer.step()
        counts.append(rounds())
    after = opened(model.parameters())
    model.eval()
    with crypten.no_grad():
        predicted = model(crypten.cryptensor(torch.from_numpy(seen[0])))
    return {
        **{"batch": seen, "before": before, "after": after, "names": names},
        **{"rounds": np.diff(counts).tolist(), "logits": opened([predicted])[0]},
    }


def _batches(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    settings = {"sample_rate": 0.8, "steps": 1, "classes": CLASSES, "max_feature_norm": 2.0}
    return poisson_batches(x, y, **settings, source=InsecureSeededSource(2))
