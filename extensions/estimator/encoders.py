"""Encoders in memory as extractors of features: functions, and modules of PyTorch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from extensions.data.datasets.records import Raw
from extensions.data.features import Extractor
from extensions.data.origin import FeatureExtraction
from extensions.errors import ArgumentError

Encoder = str | Callable[[Any], Any] | None
"""The name of an extractor, as `pea train` takes it, or a function of a batch of records."""


@dataclass(frozen=True, kw_only=True)
class OwnExtraction(FeatureExtraction):
    """Features by an extractor of the program's own."""

    own: Extractor

    @property
    def extractor(self) -> Extractor:
        """What extracts them."""
        return self.own


def extraction_of(features: Encoder) -> FeatureExtraction:
    """Returns how features are extracted by a named extractor, or by a function of one's own.

    A function returns an array (batch, features), each row of its own record alone, which is tried
    on some records. A module of PyTorch is given tensors, images as (batch, channels, height,
    width) in 0..1.

    Raises:
        ArgumentError: a module in training mode.
    """
    if features is None or isinstance(features, str):
        return FeatureExtraction(features=features, keep=False)
    name = getattr(features, "__qualname__", type(features).__qualname__)
    extractor = Extractor(
        name=f"encoder {name}",
        kinds=("images", "table", "texts"),
        function=_of_module(features) if hasattr(features, "state_dict") else features,
        identity=None,
        checks_rows=True,
    )
    return OwnExtraction(features=extractor.name, keep=False, own=extractor)


def _of_module(module: Callable[[Any], Any]) -> Callable[[Raw], Any]:
    """Returns a function of arrays that a module of PyTorch computes, without gradients."""
    import torch

    if getattr(module, "training", False):
        rule = "in evaluation mode: module.eval()"
        advice = "In training mode, a row may depend on other records or on chance."
        raise ArgumentError("features", type(module).__qualname__, rule, advice)

    def rows(x: Raw) -> Any:
        given = torch.from_numpy(np.asarray(x, dtype=np.float32))
        if given.ndim > 2:
            given = (given[:, None] if given.ndim == 3 else given.permute(0, 3, 1, 2)) / 255
        with torch.inference_mode():
            return module(given).flatten(1).numpy()

    return rows
