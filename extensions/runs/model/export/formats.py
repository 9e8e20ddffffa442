"""Formats by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from extensions.errors import ArgumentError, MissingExtraError
from extensions.layers.models.lora import lora_sizes
from extensions.rules import one_of
from extensions.runs.model.files import SAFETENSORS, OpenedModel, write_opened

Write = Callable[[Path, OpenedModel], object]


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format: how its files' names end, and where they have the header.

    `writer` returns what writes a model to a path, once its framework is imported: the package,
    which an extra installs.
    """

    suffix: str
    writer: Callable[[], Write]
    package: str | None = None
    extra: str = ""
    header: str


def _torch() -> Write:
    from extensions.runs.model.export import torch_program

    return torch_program.write


def _onnx() -> Write:
    from extensions.runs.model.export import onnx_graph

    return onnx_graph.write


def _keras() -> Write:
    from extensions.runs.model.export import keras_model

    return keras_model.write


def _points() -> Write:
    from extensions.runs.model.export import points

    return points.write


def _peft() -> Write:
    from extensions.runs.model.export import peft_adapter

    return peft_adapter.write


FORMATS: Mapping[str, Format] = {
    "torch": Format(
        suffix=".pt2",
        writer=_torch,
        package="torch",
        extra="fl",
        header="extra file header.json (`torch.export.load`)",
    ),
    "onnx": Format(
        suffix=".onnx",
        writer=_onnx,
        package="onnx",
        extra="onnx",
        header="metadata property header",
    ),
    "keras": Format(
        suffix=".keras",
        writer=_keras,
        package="tf_keras",
        extra="tfe",
        header="header.json in the archive (`zipfile`)",
    ),
    "points": Format(suffix=".csv", writer=_points, header="none"),
    "peft": Format(suffix="", writer=_peft, header="metadata header of adapter_model.safetensors"),
    "safetensors": Format(
        suffix=SAFETENSORS, writer=lambda: write_opened, header="metadata header"
    ),
    "npz": Format(suffix=".npz", writer=lambda: write_opened, header="array header"),
}


def _formats_of(model: OpenedModel) -> list[str]:
    """Returns the formats that have what a model of this kind computes."""
    if lora_sizes(model.header.spec.kind) is not None:
        return ["peft", "npz", "safetensors"]
    if model.header.spec.is_built:
        return ["npz", "safetensors"]
    additive = model.header.grid is not None
    return [name for name in FORMATS if name not in ("peft", "keras" if additive else "points")]


def export(model: OpenedModel, to: str, path: Path) -> Path:
    """Writes a model in the format of that name, readable by its owner only."""
    one_of(FORMATS).check("to", to)
    chosen = FORMATS[to]
    kind = model.header.spec.kind
    if to not in (offered := _formats_of(model)):
        advice = "Its weights are arrays by their names."
        raise ArgumentError("to", to, f"{' or '.join(offered)} for {kind or 'it'}", advice)
    if path.suffix != chosen.suffix:
        ending = f"file that ends in {chosen.suffix}" if chosen.suffix else "folder without a dot"
        allowed = f"the path of a {ending}"
        raise ArgumentError("out", str(path), allowed, code="file")
    try:
        write = chosen.writer()
    except ModuleNotFoundError as error:
        if chosen.package is None or error.name != chosen.package:
            raise
        raise MissingExtraError(chosen.package, chosen.extra) from error
    write(path, model)
    return path
