"""Models on disk: NumPy reads them, without pickles; the array ``header`` is one text of JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.network.chain import Network
from extensions.npz import read_npz
from extensions.owners.data import write_private
from extensions.protocols.host import named, pairs
from extensions.protocols.sums.whitening import Whitening
from extensions.ring.fixed_point import Reals
from extensions.runs.model.header import Header

MODEL_FILE = "model.npz"
"""Name of an opened model in a run's folder."""
_unusable = partial(ArgumentError, code="file")
HEADER = "header"
WHITENING = ("whitening_diagonal", "whitening_upper")
"""What was opened of a whitening (`extensions.protocols.sums.whitening.Whitening.parts`)."""
SHARED = "save"
"""An array that files of shares have, and no others."""


@dataclass(frozen=True, kw_only=True)
class OpenedModel:
    """A model in the clear.

    Attributes:
        header: what is known of it.
        parameters: weight (outputs, inputs) and bias (outputs,) of each layer.
        whitening: of its features, or None.
    """

    header: Header
    parameters: Sequence[tuple[Reals, Reals]]
    whitening: Whitening | None = None


def header_array(header: Header) -> npt.NDArray[np.str_]:
    """Returns what files hold under the name ``header``."""
    return np.array(header.to_json())


def write_opened(path: Path, model: OpenedModel) -> Path:
    """Writes a model, readable by its owner only: ``weight_i``, ``bias_i`` and ``header``.

    Where features are whitened, also `WHITENING`.
    """
    parts = [part for pair in model.parameters for part in pair]
    facts = {HEADER: header_array(model.header), **whitening_arrays(model.whitening)}
    return write_private(path, **facts, **named(parts))


def whitening_arrays(whitening: Whitening | None) -> dict[str, npt.NDArray[Any]]:
    """Returns what files hold of a whitening; nothing without one."""
    return {} if whitening is None else dict(zip(WHITENING, whitening.parts, strict=True))


def read_opened(path: Path) -> OpenedModel:
    """Returns a model that was written in the clear.

    Raises:
        ArgumentError: no such file; one without a header, of shares, or with other weights than
            the header says.
    """
    arrays = read_arrays("model", path)
    if SHARED in arrays:
        raise _unusable(
            "model",
            str(path),
            "a model in the clear",
            "This is a party's share of one. `pea train` with {evaluate=opened} and {save} writes "
            "model.npz.",
        )
    header = header_in("model", path, arrays)
    parts = reals_in("model", path, arrays, header.spec.network)
    whitening = whitening_in("model", path, arrays, header)
    return OpenedModel(header=header, parameters=pairs(parts), whitening=whitening)


def check_there(argument: str, path: Path) -> None:
    """Returns only if there is such a file.

    Raises:
        ArgumentError: there is not.
    """
    if not path.is_file():
        raise _unusable(argument, str(path), "an existing .npz file of `pea train`")


def read_arrays(argument: str, path: Path) -> dict[str, npt.NDArray[Any]]:
    """Returns the arrays of an .npz file.

    Args:
        argument: what the file is called in an error.
        path: of the file.

    Raises:
        ArgumentError: no such file, or one that is damaged.
    """
    check_there(argument, path)
    try:
        return read_npz(path)
    except ValueError as error:
        raise _unusable(argument, str(path), "an undamaged .npz file", f"{error}.") from error


def header_in(argument: str, path: Path, arrays: dict[str, npt.NDArray[Any]]) -> Header:
    """Returns the header among a file's arrays.

    Raises:
        ArgumentError: there is none, or it cannot be read.
    """
    if HEADER not in arrays:
        raise _unusable(
            argument,
            f"{path}, which has no header",
            "a file of `pea train`",
            "Files of earlier versions do not say what their models take: train again.",
        )
    try:
        return Header.of_json(str(arrays[HEADER]))
    except ArgumentError as error:
        error.add_note(f"The file is {path}.")
        raise


def parameters_in(
    argument: str, path: Path, arrays: dict[str, npt.NDArray[Any]], network: Network
) -> list[npt.NDArray[Any]]:
    """Returns each weight and bias of a network in turn.

    Raises:
        ArgumentError: they are of other shapes.
    """
    shapes_of = network.parameter_shapes
    wanted = [shape for weight in shapes_of for shape in (weight, weight[:1])]
    names = named([None] * len(wanted))
    parts = [arrays[name] for name in names if name in arrays]
    shapes = [part.shape for part in parts]
    if shapes != wanted:
        allowed = f"of the model's shapes, {wanted}"
        raise ArgumentError(argument, f"{path}: {shapes}", allowed, code="shape")
    return parts


def reals_in(
    argument: str, path: Path, arrays: dict[str, npt.NDArray[Any]], network: Network
) -> list[Reals]:
    """Returns each weight and bias of a network in turn, in the clear.

    Raises:
        ArgumentError: they are of other shapes, or not finite real numbers.
    """
    parts = parameters_in(argument, path, arrays, network)
    if not all(part.dtype.kind == "f" and np.isfinite(part).all() for part in parts):
        raise _unusable(argument, str(path), "a file of finite real numbers")
    return parts


def whitening_of(header: Header, parts: Sequence[npt.NDArray[Any]] | None) -> Whitening | None:
    """Returns the whitening of a model's features; None where they are taken as they are.

    Args:
        header: of the model.
        parts: what was opened of it, or None.

    Raises:
        ArgumentError: it is not what the header says.
    """
    if header.whitening is None:
        return None
    columns = header.spec.widths[0]
    shapes = [("int64", (size,)) for size in (columns, columns * (columns - 1) // 2)]
    found = None
    if parts is not None and [(part.dtype.name, part.shape) for part in parts] == shapes:
        found = Whitening(parts=[*parts], ridge=header.whitening["ridge"])
    if found is None or found.digest != header.whitening["digest"]:
        allowed = "those that the training opened"
        advice = "Without them features are not those of the training. Save the model again."
        raise ArgumentError("whitening", "other numbers than the header says", allowed, advice)
    return found


def whitening_in(
    argument: str, path: Path, arrays: dict[str, npt.NDArray[Any]], header: Header
) -> Whitening | None:
    """Returns the whitening among a file's arrays; None where features are taken as they are.

    Raises:
        ArgumentError: it is not what the header says.
    """
    parts = [arrays[name] for name in WHITENING if name in arrays]
    try:
        return whitening_of(header, parts)
    except ArgumentError as error:
        raise _unusable(argument, str(path), "an undamaged file", str(error)) from error
