"""A table as JSON, with the machine that made it, and as Markdown."""

import json
import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.network.calibration import current, shown

RESULTS = Path(__file__).parent / "results"
BYTES = (
    "sent and received by a party, the mean and the largest of the parties: what TCP carried in "
    "CrypTen, the graph's count in ABY3"
)
_NUMBERS = re.compile(r"\[[-+.\deE,\s]+\]")
"""Lists of numbers, which take a line each."""
PACKAGES = (
    "numpy",
    "scipy",
    "torch",
    "crypten",
    "tensorflow",
    "tf-encrypted",
    "dp-accounting",
    "opendp",
)


def machine() -> dict[str, Any]:
    """Returns processor, memory, system and versions, by which a reader judges the times."""
    return {
        "python": platform.python_version(),
        "platform": platform.system() + " " + platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory GiB": _memory(),
        "kernel": platform.release(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"model name\s*: (.*)", text)
    return found[1] if found else platform.processor()


def _memory() -> float | None:
    """The memory in GiB, where the system tells it."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError):
        return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Returns the rows as a Markdown table; the first row decides the columns."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    lines += ["| " + " | ".join(cell(row[name]) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """Returns the value as tables show it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def published(name: str, **settings: Any) -> dict[str, Any]:
    """Returns what a table's file has, if it was made with these settings; else nothing."""
    network = current()
    file = RESULTS / f"{name}{'' if network is None else '-' + network['profile']}.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    same = found.get("settings", {}).items() >= settings.items() if found else False
    return found if same else {}


def dates(found: dict[str, Any]) -> dict[str, str]:
    """Returns the day on which each of the samples that `published` found was recorded."""
    each: dict[str, str] = found.get("settings", {}).get("recorded", {})
    return {name: each.get(name, found["recorded"]) for name in found.get("samples", {})}


class Table:
    """What a benchmark found.

    Args:
        name: of its file.
        rows: what is shown.
        samples: the raw measurements behind the rows, for the file alone.
        **settings: of the run, seed and network included.
    """

    def __init__(
        self, name: str, rows: Sequence[dict[str, Any]], *, samples: Any = None, **settings: Any
    ) -> None:
        self.name, self.rows, self.samples, self.settings = name, rows, samples, settings

    def write(self, *, record: bool) -> None:
        """Prints the table and writes it with machine and date.

        On an emulated network the name ends with the profile's, and what was measured of the
        network is printed and written with the table.

        Args:
            record: whether it replaces ``results/NAME.json``, or is ``results/reruns/NAME.json``.
        """
        network, name, settings = current(), self.name, self.settings
        if network is not None:
            name += f"-{network['profile']}"
            settings |= {"network": network}
            print(shown(network))
        today = datetime.now(UTC).date().isoformat()
        content: dict[str, Any] = {"recorded": today, "machine": machine(), "settings": settings}
        content |= {"rows": self.rows} | ({} if self.samples is None else {"samples": self.samples})
        text = _NUMBERS.sub(lambda found: " ".join(found[0].split()), json.dumps(content, indent=2))
        folder = RESULTS if record else RESULTS / "reruns"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(text + "\n")
        print(markdown(self.rows))


def chosen(
    rows: Sequence[dict[str, Any]], columns: str = "*", where: str = ""
) -> list[dict[str, Any]]:
    """Returns some of the rows, with some of the columns.

    Args:
        rows: of a table.
        columns: their names with ``|`` between them; ``*``: all.
        where: ``column = cell or cell and column = cell``: those rows that show one of the cells.
    """
    for condition in where.split(" and ") if where else ():
        column, _, cells = condition.partition(" = ")
        rows = [row for row in rows if cell(row[column]) in cells.split(" or ")]
    if columns == "*":
        return list(rows)
    return [{name: row.get(name, "-") for name in columns.split(" | ")} for row in rows]
