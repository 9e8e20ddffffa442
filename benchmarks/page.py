"""The document of recorded results: each benchmark's tables, figures, dates and machines."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.benchmark import Benchmark, Result, found
from benchmarks.network.profiles import PROFILES
from extensions.errors import ArgumentError

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = DOCS / "explanation" / "results.md"
SLOT = re.compile(
    r"<!-- table: ([^\s:]+)(?:: (.+?))?(?: where (.+?))? -->\n.*?<!-- end -->", re.DOTALL
)
_FIELDS = ("machine", "settings", "rows")
_HEAD = """# Results

`python -m benchmarks report` makes this page from the files in `benchmarks/results`, which have raw
samples, settings and versions too. Runs have three parties unless a table says otherwise. Counts of
rounds and bytes are exact; compare times within one table only. `python -m benchmarks list` names
what makes which. `--record` replaces what is recorded, and otherwise a run writes into `reruns`
beside it.
"""


@dataclass(frozen=True)
class Recorded:
    """A recorded table, and what is said of its kind."""

    name: str
    content: Mapping[str, Any]
    benchmark: Benchmark
    result: Result
    profile: str

    @property
    def made(self) -> str:
        """When and on what it was made."""
        machine = self.content["machine"]
        kind = f"{machine.get('processor', 'an unknown machine')}, {machine.get('cores')} cores"
        return f"{self.content.get('recorded', 'an earlier day')} on {kind}"


def read(folder: Path) -> list[Recorded]:
    """Returns the folder's tables, in the order of the benchmarks and of what they list.

    Raises:
        ArgumentError: a .json file is no table of a benchmark.
    """
    return sorted(map(_read, folder.glob("*.json")), key=_place)


def _place(one: Recorded) -> tuple[int, int, str, str]:
    return (
        found().index(one.benchmark),
        one.benchmark.results.index(one.result),
        one.profile,
        one.name,
    )


def _read(path: Path) -> Recorded:
    try:
        content = json.loads(path.read_text())
    except json.JSONDecodeError:
        content = None
    if isinstance(content, dict) and all(field in content for field in _FIELDS):
        for name, profile in {path.stem: "", **_profiles(path.stem)}.items():
            for benchmark in found():
                if (result := benchmark.finds(name)) is not None:
                    return Recorded(path.stem, content, benchmark, result, profile)
    rule = f"JSON with {', '.join(_FIELDS)}, of a name that a benchmark lists"
    raise ArgumentError("result", path.name, rule, "Record it again.", code="file")


def _profiles(name: str) -> dict[str, str]:
    """The name without the emulated network that it may end with, and that."""
    return {name.removesuffix(f"-{one}"): one for one in PROFILES if name.endswith(f"-{one}")}


def with_tables(text: str) -> str:
    """Returns the text with its table slots filled from the recorded results.

    A slot ``name: columns where condition`` holds rows of all results of a name that may have a
    ``*``; columns and condition are those of `benchmarks.tables.chosen`.
    """

    def fill(slot: re.Match[str]) -> str:
        files = sorted(tables.RESULTS.glob(f"{slot[1]}.json"))
        rows = [row for file in files for row in json.loads(file.read_text())["rows"]]
        table = tables.markdown(tables.chosen(rows, slot[2] or "*", slot[3] or ""))
        opening, _, _ = slot[0].partition("\n")
        return f"{opening}\n{table}\n<!-- end -->"

    return SLOT.sub(fill, text)


def text() -> str:
    """Returns the document."""
    parts = [_HEAD]
    for part, of_part in groupby(read(tables.RESULTS), key=lambda one: one.benchmark.part):
        parts.append(f"## {part}\n")
        for benchmark, every in groupby(of_part, key=lambda one: one.benchmark):
            needs = f" Needs: {benchmark.needs}." if benchmark.needs else ""
            command = f"`python -m benchmarks {benchmark.name}`, about {benchmark.minutes:g} min."
            parts.append(f"### {benchmark.title}\n\n{command}{needs}\n")
            for result, several in groupby(every, key=lambda one: one.result):
                parts.append(_section(result, list(several)))
    return "\n".join(parts)


def _section(result: Result, several: Sequence[Recorded]) -> str:
    links = ", ".join(f"[{one.name}](../../benchmarks/results/{one.name}.json)" for one in several)
    options = f" (`{result.options}`)" if result.options else ""
    dates = "; ".join(dict.fromkeys(one.made for one in several))
    lines = [f"{result.shows}{options} [{links}; {dates}.]\n"]
    plain = [one for one in several if not one.profile]
    rows = [row for one in plain for row in one.content["rows"]]
    if result.columns:
        shown = tables.chosen(rows, result.columns, result.where)
        lines.append(tables.markdown(shown) + "\n")
    if result.chart is not None:
        name = result.chart.of
        lines.append(f"![{', '.join(result.chart.values)}: {name}](../charts/{name}.svg)\n")
    return "\n".join(lines)
