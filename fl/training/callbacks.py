"""What is told of every round as it ends: a bar, a table, TensorBoard, or the user's own."""

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import nn

from extensions import durable, printing
from extensions.errors import ArgumentError
from fl.training.history import History, RoundReport

Callback = Callable[[History, nn.Module], None]
"""Called after each round with all rounds so far and the present model; it changes neither."""


@contextmanager
def progress(rounds: int, *, shown: bool) -> Iterator[Callable[[RoundReport], None]]:
    """Shows rounds, accuracy and bytes so far; yields what to call after each round."""
    columns = (
        TextColumn("round {task.completed}/{task.total}"),
        BarColumn(),
        TextColumn("{task.fields[accuracy]}"),
        TextColumn("{task.fields[megabytes]:.1f} MB"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=printing.ERR), disable=not shown) as bar:
        task = bar.add_task("", total=rounds, accuracy="", megabytes=0.0)
        megabytes = 0.0

        def show(report: RoundReport) -> None:
            nonlocal megabytes
            megabytes += report.bytes_total / 1e6
            bar.update(task, advance=1, megabytes=megabytes)
            if report.accuracy is not None:
                bar.update(task, accuracy=f"accuracy {report.accuracy:.1%}")

        yield show


class CSVWriter:
    """Writes the numbers of all rounds so far (`RoundReport.numbers`) into a CSV file.

    The file is whole at any time. A resumed run writes the rounds before it too.

    Args:
        path: of the file, which is overwritten.

    Examples:
        >>> import pathlib
        >>> run = fl.FederatedAveraging(**setup, aggregator=fl.PlainAggregator())
        >>> _ = run.fit(rounds=2, callbacks=[fl.CSVWriter("rounds.csv")])
        >>> len(pathlib.Path("rounds.csv").read_text().splitlines())
        3
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __call__(self, history: History, model: nn.Module) -> None:
        """Writes the table.

        Raises:
            ArgumentError: the file cannot be written.
        """
        rows = [report.numbers() for report in history]
        columns = dict.fromkeys(name for row in rows for name in row)
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
        try:
            with durable.write(self.path) as file:
                file.write(text.getvalue().encode())
        except OSError as error:
            rule = "a file that can be written"
            raise ArgumentError("path", str(self.path), rule, code="file") from error


class TensorBoardWriter:
    """Writes the numbers of each round (`RoundReport.numbers`) for TensorBoard.

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
                "Type: pip install tensorboard. Or use fl.CSVWriter.",
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


class MetricsLogger:
    """Passes the numbers of each round (`RoundReport.numbers`) to a tracker.

    For example ``callbacks=[fl.MetricsLogger(mlflow.log_metrics)]``, or ``wandb.log`` after
    ``wandb.init()``. You start and end the tracker's run.

    Args:
        log: takes numbers by name, and the round as ``step=``.

    Raises:
        ArgumentError: it is something other than a function.

    Examples:
        >>> seen = []
        >>> run = fl.FederatedAveraging(**setup, aggregator=fl.PlainAggregator())
        >>> log = fl.MetricsLogger(lambda numbers, step: seen.append(step))
        >>> _ = run.fit(rounds=2, callbacks=[log])
        >>> seen
        [1, 2]
    """

    def __init__(self, log: Callable[..., Any]) -> None:
        if not callable(log):
            rule = "a function of numbers by name and step=, such as mlflow.log_metrics"
            raise ArgumentError("log", log, rule, code="type")
        self._log = log

    def __call__(self, history: History, model: nn.Module) -> None:
        """Gives the numbers of the last round."""
        found = history[-1].numbers()
        step = history[-1].number
        self._log({k: float(v) for k, v in found.items() if v is not None}, step=step)
