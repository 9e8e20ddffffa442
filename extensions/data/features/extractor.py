"""Functions from one record to its features, fixed before any data is seen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.data.datasets.records import Kind, Raw

Features = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """A function from records to rows, each row a function of its own record alone.

    Guarantees:
        what a record's row is does not depend on any other record, so that neighbouring data sets
        still differ in one row, and the accounting of DPSGD holds for records as for rows. No
        extractor here is fitted; `extensions.data.features.custom` says what that asks of one's
        own.

    Attributes:
        function: from a batch of records to an array (batch, features).
        identity: all that fixes the features beside the record: options, versions, digests of
            weights. None: unknown, so that features are not kept on disk.
        size: height and width to which it resizes images; None if it takes them as they are.
        checks_rows: whether to make sure, on a few records, that rows do not depend on each other.
        sources: digests of what a function of one's own is made of.
        inputs: of an encoder: from a batch of records to whole numbers, a row each, that it reads.
        exact: whether rows are these inputs, which nothing may scale.
    """

    name: str
    kinds: tuple[Kind, ...]
    function: Callable[[Raw], npt.NDArray[Any]]
    identity: Mapping[str, str] | None
    size: tuple[int, int] | None = None
    batch: int = 64
    checks_rows: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    inputs: Callable[[Raw], npt.NDArray[Any]] | None = None
    exact: bool = False

    @property
    def statement(self) -> dict[str, str]:
        """What owners tell each other of it, to make sure that they all have the same."""
        fixed = {**(self.identity or {}), **self.sources}
        return {"features": self.name} | {f"features: {name}": fixed[name] for name in fixed}
