"""What the `pea` command shows: notices, progress, the report, and how a lost run goes on."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from extensions import printing
from extensions.cli.options import Ending
from extensions.errors import LostError
from extensions.layers.measures import caveats
from extensions.privacy.accounting import WEAK_EPSILON, weakness
from extensions.runs.config import TrainConfig
from extensions.runs.model import MODEL_FILE, opened_of, write_opened
from extensions.runs.report import as_json
from extensions.runs.summaries.forecast import spent_so_far, traffic_in
from extensions.runs.summaries.result import result_lines

EPSILON_EVERY = 2.0
_BESIDE = len("====") + len("epsilon infinite") + len("00:00:00") + 4
"""Columns of a line of progress beside its step and its traffic: bar, epsilon, time left, gaps."""

# Names and reasons that others wrote are shown as they are: nothing in them is markup.
_err = Console(file=printing.ERR, markup=False, emoji=False)
out = Console(file=printing.OUT, markup=False, emoji=False)
"""Where commands print what they were asked for."""


def notices(config: TrainConfig, of_backend: Sequence[str]) -> None:
    """Prints, once a run, what is not protected."""
    lines = [*of_backend]
    if not config.private:
        lines.append("--no-dp: the model is not private; it may reveal training records.")
    if config.insecure_seed is not None:
        lines.append("--insecure-fixed-randomness: everybody can replay the noise; not private.")
    if config.facts.get("schema basis") == "data":
        lines.append(
            "the schema's basis is data: epsilon does not cover what it reveals of the records."
        )
    for line in lines:
        notice(line)


def notice(line: str) -> None:
    """Prints one thing that is not protected."""
    _err.print(Text.assemble(("Notice:", "yellow"), " ", line))


def expected(line: str | None, assuming: str = "") -> None:
    """Prints what a run will tell, if anything is said of it.

    Args:
        line: which says it.
        assuming: of what is not known here, such as others' numbers of records.
    """
    if line is not None:
        _err.print(f"expected: {assuming}{line}", highlight=False)


@contextmanager
def resume_hint(
    kept: Path | None,
    *,
    at_players: bool = False,
    again: str = "give the same command with --resume.",
) -> Iterator[None]:
    """Adds the command that resumes the run to the error of a lost process, or to Ctrl-C.

    Args:
        kept: the run's checkpoint, a file or a folder of them; None or empty: nothing is kept.
        at_players: whether it is a folder that every player has, of which this program sees none.
        again: how to go on.
    """
    try:
        yield
    except (LostError, KeyboardInterrupt) as error:
        if kept is not None and at_players:
            error.add_note(f"What players keep in {kept} is not lost: {again}")
        elif kept is not None and (kept.is_file() or any(kept.glob("*"))):
            error.add_note(f"What {kept} keeps is not lost: {again}")
        raise


@contextmanager
def progress(config: TrainConfig) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Shows steps, epsilon so far and time left; yields what to call after each step.

    Of rounds and bytes as much as fits beside these. An event `settled` has the run's settings as
    the parties have found them together, with all numbers of records.
    """
    columns = (
        TextColumn("step {task.completed}/{task.total}"),
        BarColumn(),
        TextColumn("{task.fields[spent]}"),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[traffic]}"),
    )
    others = len(f"step {config.steps}/{config.steps}") + _BESIDE
    with Progress(*columns, console=_err) as bar:
        task = bar.add_task("", total=config.steps, traffic="", spent="")
        last = 0.0

        def show(event: dict[str, Any]) -> None:
            nonlocal config, last
            if "settled" in event:
                config = event["settled"]
                bar.update(task, total=config.steps)
            if event.get("step", 0) == 0:
                return
            traffic = traffic_in(event, _err.width - others)
            bar.update(task, completed=event["step"], traffic=traffic)
            now = time.monotonic()
            if now - last > EPSILON_EVERY or event["step"] == config.steps:
                bar.update(task, spent=spent_so_far(config, event["step"]))
                last = now

        yield show


@contextmanager
def counted(unit: str, *, shown: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Shows how many units of work are done; yields what to call with their number and that of all.

    Args:
        unit: what is counted, such as "tuple".
        shown: False shows nothing.
    """
    with _bar(unit, shown=shown) as show:
        yield lambda done, total: show(0, done, total)


@contextmanager
def stages() -> Iterator[Callable[[str, int, int], None]]:
    """Shows what is done now, or waited for; yields what to call with it, how much and of what.

    Where nobody watches, a line for each stage: what stands before ", which".
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_err, transient=True) as bar:
        task, last = bar.add_task(""), ""

        def show(what: str, done: int, total: int) -> None:
            nonlocal last
            stage = what.partition(", which")[0]
            if stage != last and not _err.is_terminal:
                _err.print(stage, highlight=False)
            last = stage
            counts = f" {done:,}/{total:,}" if total else ""
            bar.update(task, description=what + counts, completed=done, total=total or None)

        yield show


@contextmanager
def extracting() -> Iterator[Callable[[int, int, int], None]]:
    """Shows whose features are being taken; yields what to call with owner, done and total."""
    with _bar("features of party {task.fields[owner]}:", transient=True) as show:
        yield show


@contextmanager
def _bar(
    words: str, *, shown: bool = True, transient: bool = False
) -> Iterator[Callable[[int, int, int], None]]:
    """Shows a bar once something is done, as what is refused is one line: `extracting`."""
    columns = (
        TextColumn(words + " {task.completed}/{task.total}"),
        BarColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=_err, disable=not shown, transient=transient)
    task = bar.add_task("", total=None, owner=0)

    def show(owner: int, done: int, total: int) -> None:
        bar.start()
        bar.update(task, owner=owner, completed=done, total=total)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


def classes(names: Sequence[str]) -> None:
    """Prints the numbers of a table's classes, which are public; nothing if they have no names."""
    if names:
        listed = ", ".join(f"{number} = {name}" for number, name in enumerate(names))
        _err.print(f"classes: {listed}", highlight=False)


def clipped(counts: Mapping[str, int], owner: str = "", left_out: int = 0) -> None:
    """Prints, to the owner alone, what its table has beyond what the schema lets count.

    Args:
        counts: number of values outside the schema's ranges, by column.
        owner: whose they are, if there are several.
        left_out: number of records beyond the most that count of a person.
    """
    if counts:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        text = f"clipped to the schema's ranges{owner} (shown here only): {listed}"
        _err.print(text, highlight=False)
    if left_out:
        allowed = "records of persons who have more than the schema's rows"
        text = f"left out{owner} (shown here only): {left_out} {allowed}"
        _err.print(text, highlight=False)


def finish(report: dict[str, Any], ending: Ending, save: Path | None = None) -> None:
    """Writes the opened model and the report where asked to, and prints what the run came to."""
    model = opened_of(report)
    path, written = ending.report, []
    if save is not None and model is not None:
        written.append(f"model: {save / MODEL_FILE}")
    elif save is not None and any(save.glob("party-*.npz")):
        written.append(f"shares: {save}")
    written += [] if path is None else [f"report: {path}"]
    written.append("the rest: --verbose")

    def write_model() -> None:
        if save is not None and model is not None:
            write_opened(save / MODEL_FILE, model)

    def tell() -> None:
        if ending.verbose:
            show(report)
        for line in result_lines(report, written):
            out.print(line, highlight=False, soft_wrap=True)

    deliver(report, write_model, lambda: write(report, path), tell=tell)


def deliver(
    report: Mapping[str, Any],
    *writes: Callable[[], object],
    tell: Callable[[], object] | None = None,
) -> None:
    """Calls what writes files, in this order, and then prints the report.

    Args:
        report: of a run.
        writes: files.
        tell: prints it; by default `show`.

    Guarantees:
        All of it is done even if some of it fails; the last error is raised at the end.
    """
    with ExitStack() as stack:
        if (epsilon := report.get("epsilon") or 0.0) > WEAK_EPSILON:
            stack.callback(notice, weakness("epsilon", epsilon))
        for doubt in caveats(report):
            stack.callback(notice, doubt)
        stack.callback(tell or partial(show, report))
        for each in reversed(writes):
            stack.callback(each)


def show(report: Mapping[str, Any]) -> None:
    """Prints what a report has to say, a line each."""
    table = Table(show_header=False, box=None)
    for key, value in report.items():
        if key == "manifest":
            table.add_row(key, value.get("digest", ""))
        elif key == "options":
            continue  # they were typed
        elif key == "phases":
            shown = "; ".join(f"{each['seconds']:.1f} ({each['phase']})" for each in value)
            table.add_row("seconds by phase", shown)
        elif value is not None:
            table.add_row(key.replace("_", " "), _show(value))
    out.print(table)


def write(report: Mapping[str, Any], path: Path | None) -> None:
    """Writes a report as JSON, in which a number that is not finite is null; None: nowhere."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_json(report))


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "; ".join(f"{_show(each)} ({key})" for key, each in value.items())
    if not isinstance(value, list):
        return str(value)
    interval = len(value) == 2 and all(isinstance(each, float) for each in value)
    return (".." if interval else "; ").join(map(_show, value))
