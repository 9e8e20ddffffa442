"""Results as one Markdown page and as one HTML page that holds its images."""

import itertools
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks.pages import facts
from benchmarks.pages.recorded import Result
from benchmarks.tables import cell

TEMPLATES = Path(__file__).parent / "templates"
_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
_ESCAPED = {ord(mark): f"\\{mark}" for mark in "\\`*_[]<>|#"}


def as_html(results: Sequence[Result]) -> str:
    """Returns the page; every image is a data URI, every text is escaped, no script is in it."""
    return _rendered("page.html", results, autoescape=True)


def as_markdown(results: Sequence[Result]) -> str:
    """Returns the page; images are named by paths relative to the results' folder."""
    return _rendered("page.md", results, autoescape=False)


def _rendered(template: str, results: Sequence[Result], *, autoescape: bool) -> str:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "cell": cell,
        "plain": lambda text: str(text).translate(_ESCAPED).replace("\n", " "),
        "data_uri": _data_uri,
    }
    parts = [
        (part, list(members))
        for part, members in itertools.groupby(results, key=lambda result: result.entry.part)
    ]
    return environment.get_template(template).render(
        parts=parts, facts=facts, numeric=_numeric, missing=facts.MISSING
    )


def _data_uri(path: Path) -> str:
    return f"data:{_TYPES[path.suffix]};base64,{b64encode(path.read_bytes()).decode()}"


def _numeric(rows: Sequence[dict[str, Any]], column: str) -> bool:
    """Whether every cell of the column is a number, begins with one or holds a dash for none."""
    return all(facts.number(row.get(column)) is not None or row.get(column) == "-" for row in rows)
