"""A model as a program of `torch.export`, which PyTorch runs without any code of ours."""

import io
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import torch
from torch import nn

from extensions import durable
from extensions.data.schema import Number
from extensions.data.schema.encoding import PLACE_BITS
from extensions.protocols.noisy_sums.whitening import SHORTEST
from extensions.ring.fixed_point import Reals
from extensions.runs.model.export.lookups import Lookup, lookups
from extensions.runs.model.files import OpenedModel


def write(path: Path, model: OpenedModel) -> None:
    """Writes the program, of float64 features (records, features), any number of records.

    ``torch.export.load(path).module()(features)`` are the logits. Linear layers are ``0``, ``2``,
    ...; between them `torch.nn.Hardtanh` cuts to 0..cap. Where features are whitened, two layers
    that do so come first. An additive model takes the columns of its schema instead: numbers in
    their unit, categories as their number in the schema's order, NaN where a value is missing.
    """
    if model.header.grid is not None:
        _write(
            path,
            model,
            _Terms(lookups(model), model.parameters[0][1]),
            len(model.header.grid.columns),
        )
        return
    caps = [function.bound for function in model.header.spec.network.activations]
    layers: list[nn.Module] = []
    if model.whitening is not None:
        layers = [_linear(model.whitening.matrix), _OfNorm(model.header.max_feature_norm)]
    for (weight, bias), cap in zip_longest(model.parameters, caps):
        layer = _linear(weight, bias)
        layers += [layer] if cap is None else [layer, nn.Hardtanh(0.0, cap)]
    _write(path, model, nn.Sequential(*layers), model.header.spec.widths[0])


def _write(path: Path, model: OpenedModel, module: nn.Module, inputs: int) -> None:
    """The program is on disk, for rows of so many numbers."""
    example = torch.zeros(2, inputs, dtype=torch.float64)
    program = torch.export.export(
        module.eval(),
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


class _Terms(nn.Module):
    """Looks each column up in a table, and adds up what is there."""

    def __init__(self, tables: Sequence[Lookup], bias: Reals) -> None:
        super().__init__()
        self._tables = tables
        self.register_buffer("bias", torch.tensor(bias))
        for i, lookup in enumerate(tables):
            self.register_buffer(f"table_{i}", torch.tensor(lookup.table))
            self.register_buffer(f"edges_{i}", torch.tensor(lookup.edges))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.get_buffer("bias").expand(x.shape[0], -1)
        for i, lookup in enumerate(self._tables):
            given = x[:, i]
            absent = torch.isnan(given)
            known = torch.where(absent, torch.zeros_like(given), given)
            if isinstance(lookup.column, Number):
                row = torch.bucketize(
                    _place(lookup, known), self.get_buffer(f"edges_{i}"), right=True
                )
            else:
                row = known.to(torch.int64)
                other = (row < 0) | (row >= len(lookup.column.categories))
                row = torch.where(other, torch.full_like(row, lookup.unnamed), row)
            row = torch.where(absent, torch.full_like(row, len(lookup.table) - 1), row)
            logits = logits + self.get_buffer(f"table_{i}")[row]
        return logits


def _place(lookup: Lookup, values: torch.Tensor) -> torch.Tensor:
    """Returns values as parts of the column's range, on its scale."""
    assert isinstance(lookup.column, Number)
    values = values.clamp(lookup.column.low, lookup.column.high)
    if lookup.column.scale == "log1p":
        values = values.sign() * values.abs().log1p()
    elif lookup.column.scale == "log":
        values = values.log()
    low, high = lookup.ends.tolist()
    scale = 2.0**PLACE_BITS
    return torch.round((values - low) * (scale / (high - low))) / scale
