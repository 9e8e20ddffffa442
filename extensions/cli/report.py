"""The command that shows the report of a run once more: its lines, or a page."""

import json
from pathlib import Path
from typing import Annotated, Any

from extensions import durable
from extensions.cli.files import parsed
from extensions.errors import ArgumentError
from extensions.options import Option, Writes
from extensions.printing import say
from extensions.runs.summaries.result import result_lines
from extensions.runs.summaries.run_page import command_of_run, write_page_of

_KIND = "a report of a run"


def report(
    run: Annotated[Path, Option(help="Report of `pea train`, `pea party` or `pea fl`: --json.")],
    /,
    html: Annotated[
        Path | None, Option(help="Write the report here as a page that works offline."), Writes()
    ] = None,
) -> None:
    """Show what a run came to, or write a page of it: quality, epsilon, cost, who saw what."""
    if html is not None and html.suffix != ".html":
        raise ArgumentError("html", str(html), "a file that ends in .html", code="file")
    found = _read(run)
    if html is None:
        for line in result_lines(found):
            say(line)
        return
    with durable.write(html) as file:
        file.write(write_page_of(found, command_of_run(found)).encode())
    say(f"{html} {html.stat().st_size} bytes")


def _read(path: Path) -> dict[str, Any]:
    """Returns a report; raises ArgumentError if it is none."""
    found: dict[str, Any] = parsed("run", path, json.loads, _KIND)
    if not isinstance(found, dict) or not {"accuracy", "seconds", "data"} <= {*found}:
        hint = "It lacks accuracy, seconds or data."
        raise ArgumentError("run", str(path), _KIND, hint, code="file")
    return found
