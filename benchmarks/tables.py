"""Writing a table as JSON, with the machine that made it, and as Markdown."""

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
    """Returns what a table's file has, if it was made with these settings; else nothing.

    Args:
        name: of the table, as for `publish`.
        **settings: some of the run's.
    """
    network = current()
    file = RESULTS / f"{name}{'' if network is None else '-' + network['profile']}.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    same = found.get("settings", {}).items() >= settings.items() if found else False
    return found if same else {}


def dates(found: dict[str, Any]) -> dict[str, str]:
    """Returns the day on which each of the samples that `published` found was recorded."""
    each: dict[str, str] = found.get("settings", {}).get("recorded", {})
    return {name: each.get(name, found["recorded"]) for name in found.get("samples", {})}


def publish(
    name: str, rows: Sequence[dict[str, Any]], *, samples: Any = None, **settings: Any
) -> None:
    """Prints the table and writes ``results/NAME.json``.

    On an emulated network the name ends with the profile's, and what was measured of the network
    is printed and written with the table.

    Args:
        name: of the table.
        rows: what the table shows.
        samples: the raw measurements behind the rows, for the file alone.
        **settings: of the run, seed and network included.
    """
    network = current()
    if network is not None:
        name += f"-{network['profile']}"
        settings["network"] = network
        print(shown(network))
    RESULTS.mkdir(exist_ok=True)
    today = datetime.now(UTC).date().isoformat()
    content = {"recorded": today, "machine": machine(), "settings": settings, "rows": list(rows)}
    if samples is not None:
        content["samples"] = samples
    text = _NUMBERS.sub(lambda found: " ".join(found[0].split()), json.dumps(content, indent=2))
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(markdown(rows))
