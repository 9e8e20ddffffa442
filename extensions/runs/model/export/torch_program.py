"""A model as a program of `torch.export`, which PyTorch runs without any code of ours."""

import io
from itertools import zip_longest
from pathlib import Path

import torch
from torch import nn

from extensions import durable
from extensions.protocols.noisy_sums.whitening import SHORTEST
from extensions.ring.fixed_point import Reals
from extensions.runs.model.files import OpenedModel


def write(path: Path, model: OpenedModel) -> None:
    """Writes the program, of float64 features (records, features), any number of records.

    ``torch.export.load(path).module()(features)`` are the logits. Linear layers are ``0``, ``2``,
    ...; between them `torch.nn.Hardtanh` cuts to 0..cap. Where features are whitened, two layers
    that do so come first.
    """
    caps = [function.bound for function in model.header.spec.network.activations]
    layers: list[nn.Module] = []
    if model.whitening is not None:
        layers = [_linear(model.whitening.matrix), _OfNorm(model.header.max_feature_norm)]
    for (weight, bias), cap in zip_longest(model.parameters, caps):
        layer = _linear(weight, bias)
        layers += [layer] if cap is None else [layer, nn.Hardtanh(0.0, cap)]
    example = torch.zeros(2, model.header.spec.widths[0], dtype=torch.float64)
    program = torch.export.export(
        nn.Sequential(*layers).eval(),
        (example,),
        dynamic_shapes=({0: torch.export.Dim("records")},),
    )
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={"header.json": model.header.to_json()})
    with durable.write(path) as file:
        file.write(buffer.getvalue())


def _linear(weight: Reals, bias: Reals | None = None) -> nn.Linear:
    outputs, inputs = weight.shape
    layer = nn.Linear(inputs, outputs, bias=bias is not None, dtype=torch.float64)
    layer.weight = nn.Parameter(torch.tensor(weight), requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(torch.tensor(bias), requires_grad=False)
    return layer


class _OfNorm(nn.Module):
    """Brings rows to one norm; zeros stay zeros."""

    def __init__(self, norm: float) -> None:
        super().__init__()
        self._norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._norm * nn.functional.normalize(x, dim=1, eps=SHORTEST)
