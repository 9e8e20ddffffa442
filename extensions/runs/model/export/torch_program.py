"""A model as a program of `torch.export`, which PyTorch runs without any code of ours."""

import io
from itertools import zip_longest
from pathlib import Path

import torch
from torch import nn

from extensions import durable
from extensions.runs.model.files import OpenedModel


def write(path: Path, model: OpenedModel) -> None:
    """Writes the program, of float64 features (records, features), any number of records.

    ``torch.export.load(path).module()(features)`` are the logits. Linear layers are ``0``, ``2``,
    ...; between them `torch.nn.Hardtanh` cuts to 0..cap.
    """
    caps = [function.bound for function in model.header.spec.network.activations]
    layers: list[nn.Module] = []
    for (weight, bias), cap in zip_longest(model.parameters, caps):
        outputs, inputs = weight.shape
        layer = nn.Linear(inputs, outputs, dtype=torch.float64)
        layer.weight = nn.Parameter(torch.tensor(weight), requires_grad=False)
        layer.bias = nn.Parameter(torch.tensor(bias), requires_grad=False)
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
