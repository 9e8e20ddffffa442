"""Formats by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from extensions.errors import ArgumentError, MissingExtraError
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
    "safetensors": Format(
        suffix=SAFETENSORS, writer=lambda: write_opened, header="metadata header"
    ),
    "npz": Format(suffix=".npz", writer=lambda: write_opened, header="array header"),
}


def export(model: OpenedModel, to: str, path: Path) -> Path:
    """Writes a model in the format of that name, readable by its owner only."""
    one_of(FORMATS).check("to", to)
    chosen = FORMATS[to]
    if model.header.spec.kind and to not in ("npz", "safetensors"):
        advice = "Its weights are arrays by their names."
        raise ArgumentError("to", to, f"npz or safetensors for {model.header.spec.kind}", advice)
    if path.suffix != chosen.suffix:
        allowed = f"the path of a file that ends in {chosen.suffix}"
        raise ArgumentError("out", str(path), allowed, code="file")
    try:
        write = chosen.writer()
    except ModuleNotFoundError as error:
        if chosen.package is None or error.name != chosen.package:
            raise
        raise MissingExtraError(chosen.package, chosen.extra) from error
    write(path, model)
    return path
