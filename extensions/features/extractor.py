"""Extractors by name: functions from one record to its features, fixed before any data is seen."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from extensions.data.records import Kind, Raw
from extensions.errors import ArgumentError

Features = npt.NDArray[np.float32]

BUILT_IN = {
    "raw": "extensions.features.raw",
    "hog": "extensions.features.hog",
    "scattering": "extensions.features.scattering",
    "tflite": "extensions.features.tflite",
    "backbone": "extensions.features.backbone",
    "hashed": "extensions.features.hashed",
    "wordllama": "extensions.features.wordllama",
}
CUSTOM = "extensions.features.custom"
ALLOWED = (
    "raw, hog, scattering, tflite:PATH, backbone:ARCHITECTURE, hashed, wordllama, or "
    "module:function of your own"
)


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """A function from records to rows, each row a function of its own record alone.

    **Guarantees**: what a record's row is does not depend on any other record, so that neighbouring
    data sets still differ in one row, and the accounting of DPSGD holds for records as for rows. No
    extractor here is fitted; `extensions.features.custom` says what that asks of one's own.

    Attributes:
        name: as in the report.
        kinds: the kinds of records that it takes.
        function: from a batch of records to an array (batch, features).
        identity: all that fixes the features beside the record: options, versions, digests of
            weights. None: unknown, so that features are not kept on disk.
        batch: number of records of one call.
        checks_rows: whether to make sure, on a few records, that rows do not depend on each other.
    """

    name: str
    kinds: tuple[Kind, ...]
    function: Callable[[Raw], npt.NDArray[Any]]
    identity: Mapping[str, str] | None
    batch: int = 64
    checks_rows: bool = False


def find(text: str, weights: Path | None = None) -> Extractor:
    """Returns the extractor of that name, with ``:ARGUMENT`` where it takes one.

    Args:
        text: such as "hog", "hog:9,4,2", "tflite:model.tflite" or "my_module:my_function".
        weights: file of the weights of a backbone; None: those that torchvision publishes.

    Raises:
        ArgumentError: an unknown name, an argument out of range, or weights for an extractor that
            takes none.
        MissingExtraError: what it needs is not installed; the message has the pip command.
    """
    name, colon, argument = text.partition(":")
    if weights is not None and name != "backbone":
        raise ArgumentError("weights", str(weights), "None, except for --features backbone")
    if name == "backbone":
        from extensions.features import backbone

        return backbone.make(argument or None, weights)
    if name in BUILT_IN:
        make = import_module(BUILT_IN[name]).make
        return cast(Extractor, make(argument if colon else None))
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", text):
        raise ArgumentError("features", text, ALLOWED)
    return cast(Extractor, import_module(CUSTOM).make(text))
