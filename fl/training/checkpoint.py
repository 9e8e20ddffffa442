"""The state of a run in one .npz file, which holds arrays and text and nothing that runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from extensions import durable
from extensions.errors import ArgumentError
from fl.training.weights import Weights


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A run between two rounds.

    Attributes:
        weights: of the model.
        settings: what must be alike where the run goes on, as text.
        history: as JSON.
        mechanism: its state, with its ledger, as text; empty: it has none.
    """

    weights: Weights
    settings: str
    history: str
    mechanism: str

    def write(self, path: Path) -> None:
        """Writes the file whole or not at all; its owner alone may read it."""
        with durable.write(path) as file:
            np.savez(file, **vars(self))

    @classmethod
    def read(cls, path: Path) -> "Checkpoint":
        """Returns what was written.

        Raises:
            ArgumentError: no such file, or one that is no checkpoint.
        """
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                texts: dict[str, Any] = {
                    name: str(file[name]) for name in ("settings", "history", "mechanism")
                }
                weights = file["weights"]
        except (OSError, BadZipFile, ValueError, KeyError, EOFError) as error:
            wanted = "a file that FederatedAveraging.save wrote"
            raise ArgumentError("path", str(path), wanted) from error
        return cls(weights=weights, **texts)
