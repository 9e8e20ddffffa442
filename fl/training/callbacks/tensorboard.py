"""Curves for TensorBoard."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from extensions.errors import ArgumentError
from fl.training.history import History


class TensorBoardWriter:
    """A callback that writes the numbers of each round (`RoundReport.numbers`) for TensorBoard.

    Their owner alone may read the files, and the folder where it is new.

    Args:
        folder: of its files, one for each run.

    Raises:
        ArgumentError: TensorBoard is not installed, or the folder cannot be written.
    """

    def __init__(self, folder: Path | str) -> None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            rule = "a folder that can be written"
            raise ArgumentError("folder", str(folder), rule, code="file") from error
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            rule, hint = (
                "where TensorBoard is",
                "Type: pip install tensorboard. Or take fl.CSVWriter.",
            )
            raise ArgumentError("folder", str(folder), rule, hint) from error
        with _private():
            self._writer: Any = SummaryWriter(str(folder))

    def __call__(self, history: History, model: nn.Module) -> None:
        """Writes the numbers of the last round."""
        report = history[-1]
        with _private():
            for name, value in report.numbers().items():
                if value is not None and name != "round":
                    self._writer.add_scalar(name, value, report.number)
            self._writer.flush()


@contextmanager
def _private() -> Iterator[None]:
    """Files that this process makes meanwhile are of mode 0600 at most."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
