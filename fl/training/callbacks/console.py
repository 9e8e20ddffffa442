"""The bar that shows how a run goes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from extensions import printing
from fl.training.history import RoundReport


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
