"""The state of a run in one .npz file, which holds arrays and text and nothing that runs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from extensions import durable
from extensions.errors import ArgumentError
from extensions.npz import read_npz
from fl.training.optimizers import State
from fl.training.weights import Weights

_OPTIMIZER = "optimizer."


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A run between two rounds.

    Attributes:
        weights: of the model.
        settings: what must be alike where the run goes on, as text.
        history: as JSON.
        mechanism: its state, with its ledger, as text; empty: it has none.
        optimizer: the state of the server's, by name.
    """

    weights: Weights
    settings: str
    history: str
    mechanism: str
    optimizer: State

    def write(self, path: Path) -> None:
        """Writes the file whole or not at all; its owner alone may read it."""
        with durable.write(path) as file:
            entries: dict[str, Any] = {k: v for k, v in vars(self).items() if k != "optimizer"}
            entries |= {f"{_OPTIMIZER}{name}": kept for name, kept in self.optimizer.items()}
            np.savez(file, **entries)

    @classmethod
    def read(cls, path: Path) -> "Checkpoint":
        """Returns what was written.

        Raises:
            ArgumentError: no such file, or one that is no checkpoint.
        """
        try:
            held = read_npz(path)
            texts: dict[str, Any] = {
                name: str(held[name]) for name in ("settings", "history", "mechanism")
            }
            weights, settings = held["weights"], json.loads(texts["settings"])
            if (
                weights.dtype != np.float32
                or weights.ndim != 1
                or not np.all(np.isfinite(weights))
                or not isinstance(settings, dict)
            ):
                raise ValueError
        except (ValueError, KeyError, RecursionError) as error:
            rule = "a file that FederatedAveraging.save wrote"
            raise ArgumentError("path", str(path), rule, code="file") from error
        kept = [name for name in held if name.startswith(_OPTIMIZER)]
        optimizer = {name.removeprefix(_OPTIMIZER): held[name] for name in kept}
        return cls(weights=weights, optimizer=optimizer, **texts)
