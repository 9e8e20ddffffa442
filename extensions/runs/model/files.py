"""Models on disk: NumPy reads them, without pickles; the array ``header`` is one text of JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions import durable
from extensions.data.datasets import write_private
from extensions.errors import ArgumentError, optional
from extensions.layers.chain import Network
from extensions.npz import read_npz
from extensions.protocols.host import named, pairs
from extensions.protocols.noisy_sums.additive.training import TERMS, are_terms
from extensions.protocols.noisy_sums.whitening import Whitening
from extensions.ring.fixed_point import Reals
from extensions.runs.model.header import Header

MODEL_FILE = "model.npz"
"""Name of an opened model in a run's folder."""
_unusable = partial(ArgumentError, code="file")
SAFETENSORS = ".safetensors"
HEADER = "header"
WHITENING = ("whitening_diagonal", "whitening_upper")
"""What was opened of a whitening (`extensions.protocols.noisy_sums.whitening.Whitening.parts`)."""
SHARED = "save"
"""An array that files of shares have, and no others."""


@dataclass(frozen=True, kw_only=True)
class OpenedModel:
    """A model in the clear, with weight (outputs, inputs) and bias (outputs,) of each layer.

    Attributes:
        terms: what an additive model has beside weights, by name (`extensions.runs.model.terms`).
    """

    header: Header
    parameters: Sequence[tuple[Reals, Reals]]
    whitening: Whitening | None = None
    terms: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


def header_array(header: Header) -> npt.NDArray[np.str_]:
    """Returns what files hold under the name ``header``."""
    return np.array(header.to_json())


def whitening_arrays(whitening: Whitening | None) -> dict[str, npt.NDArray[Any]]:
    """Returns what files hold of a whitening; nothing without one."""
    return {} if whitening is None else dict(zip(WHITENING, whitening.parts, strict=True))


def write_opened(path: Path, model: OpenedModel) -> Path:
    """Writes a model, readable by its owner only: ``weight_i``, ``bias_i`` and ``header``.

    Where features are whitened, also `WHITENING`; of an additive model, what is known of its terms.
    A path that ends in .safetensors gets that format, with the header in its metadata; any other is
    .npz.
    """
    parts = [part for pair in model.parameters for part in pair]
    arrays = {**whitening_arrays(model.whitening), **model.terms, **named(parts)}
    if path.suffix != SAFETENSORS:
        return write_private(path, **{HEADER: header_array(model.header)}, **arrays)
    safetensors = optional("safetensors.numpy", "safetensors", "encoders")
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = safetensors.save(whole, metadata={HEADER: model.header.to_json()})
    with durable.write(path) as file:
        file.write(content)
    return path


def read_opened(path: Path) -> OpenedModel:
    """Returns a model that was written in the clear."""
    file = ModelFile("model", path)
    if SHARED in file.arrays:
        advice = "`pea train` with {evaluate=opened} and {save} writes model.npz."
        advice = f"This is one party's share of a model. {advice}"
        raise file.unusable("a model in the clear", advice)
    header = file.header()
    parts = pairs(file.reals(header.spec.network))
    return OpenedModel(
        header=header,
        parameters=parts,
        whitening=file.whitening(header),
        terms=file.terms(header),
    )


def check_there(argument: str, path: Path) -> None:
    """Checks that there is such a file."""
    if not path.is_file():
        raise _unusable(argument, str(path), "an existing .npz file of `pea train`")


def opened_of(report: dict[str, Any]) -> OpenedModel | None:
    """Takes the opened model out of a run's report; None if it has none that one file can hold."""
    parameters, header, parts, terms = (
        report.pop(name, None) for name in ("parameters", "header", "whitening", "terms")
    )
    if parameters is None:
        return None
    known = Header.of_json(header)
    if known.widths and known.whitening:  # each owner maps its own columns
        return None
    whitening = whitening_of(known, parts)
    return OpenedModel(header=known, parameters=parameters, whitening=whitening, terms=terms or {})


def _tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Returns what a file of safetensors holds, and its header as an .npz file has it.

    Raises:
        ValueError: it is damaged.
    """
    safetensors = optional("safetensors", "safetensors", "encoders")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = (file.metadata() or {}).get(HEADER)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from error
    return arrays if header is None else {HEADER: np.array(header), **arrays}


class ModelFile:
    """A file's arrays by their names, which may be a model's, or a share of one."""

    def __init__(self, argument: str, path: Path) -> None:
        check_there(argument, path)
        self._argument, self._path = argument, path
        try:
            self.arrays = _tensors(path) if path.suffix == SAFETENSORS else read_npz(path)
        except ValueError as error:
            raise self.unusable("an undamaged file", f"{error}.") from error

    def unusable(self, rule: str, hint: str = "", *, found: str = "") -> ArgumentError:
        """Returns the error that the file is not what it must be."""
        return _unusable(self._argument, f"{self._path}{found}", rule, hint)

    def header(self) -> Header:
        """Returns the header."""
        if HEADER not in self.arrays:
            advice = "Files of earlier versions lack what PEA needs to use the model: train again."
            raise self.unusable("a file of `pea train`", advice, found=", which has no header")
        try:
            return Header.of_json(str(self.arrays[HEADER]))
        except ArgumentError as error:
            error.add_note(f"The file is {self._path}.")
            raise

    def parameters(self, network: Network) -> list[npt.NDArray[Any]]:
        """Returns each weight and bias of a network in turn."""
        wanted = [shape for weight in network.parameter_shapes for shape in (weight, weight[:1])]
        names = named([None] * len(wanted))
        parts = [self.arrays[name] for name in names if name in self.arrays]
        shapes = [part.shape for part in parts]
        if shapes != wanted:
            allowed = f"of the model's shapes, {wanted}"
            raise ArgumentError(self._argument, f"{self._path}: {shapes}", allowed, code="shape")
        return parts

    def reals(self, network: Network) -> list[Reals]:
        """Returns each weight and bias of a network in turn, in the clear."""
        parts = self.parameters(network)
        if not all(part.dtype.kind == "f" and np.isfinite(part).all() for part in parts):
            raise self.unusable("a file of finite real numbers")
        return parts

    def terms(self, header: Header) -> dict[str, npt.NDArray[Any]]:
        """Returns what is known of an additive model's terms; nothing of other models."""
        if (grid := header.grid) is None:
            return {}
        found = {name: self.arrays[name] for name in TERMS if name in self.arrays}
        if not are_terms(found, grid, header.spec.widths[-1]):
            raise self.unusable("an undamaged file of an additive model")
        return found

    def whitening(self, header: Header) -> Whitening | None:
        """Returns the whitening; None where features are taken as they are."""
        try:
            return whitening_of(header, [self.arrays[n] for n in WHITENING if n in self.arrays])
        except ArgumentError as error:
            raise self.unusable("an undamaged file", str(error)) from error


def whitening_of(header: Header, parts: Sequence[npt.NDArray[Any]] | None) -> Whitening | None:
    """Returns the whitening of a model's features; None where they are taken as they are.

    What was opened of it must be what the header says.
    """
    if header.whitening is None:
        return None
    columns = header.inputs
    shapes = [("int64", (size,)) for size in (columns, columns * (columns - 1) // 2)]
    found = None
    if parts is not None and [(part.dtype.name, part.shape) for part in parts] == shapes:
        found = Whitening(parts=[*parts], ridge=header.whitening["ridge"])
    if found is None or found.digest != header.whitening["digest"]:
        allowed = "those that the training opened"
        advice = "Prediction needs the features of the training. Save the model again."
        raise ArgumentError("whitening", "other numbers than the header says", allowed, advice)
    return found
