"""The results of a folder, as their files hold them, with the figures that lie beside them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.network import PROFILES
from benchmarks.pages.catalogue import find, order
from benchmarks.pages.entries import NAMES, Entry
from extensions.errors import ArgumentError

FIGURES = (".png", ".svg")
_FIELDS = ("machine", "settings", "rows")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """An image file and what it shows."""

    path: Path
    shows: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """One recorded table.

    Attributes:
        name: of its file, without the ending.
        entry: what is known of all results of such a name.
        title: the heading.
        command: what reruns it; "" if unknown.
        content: what the file holds.
        figures: those whose names begin with the result's, and with no longer one's.
    """

    name: str
    entry: Entry
    title: str
    command: str
    content: dict[str, Any]
    figures: Sequence[Figure]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The table."""
        return list(self.content["rows"])

    @property
    def columns(self) -> list[str]:
        """The names of all columns, in the order in which rows bring them up."""
        return list(dict.fromkeys(name for row in self.rows for name in row))


def read(folder: Path) -> list[Result]:
    """Returns the folder's results in the catalogue's order, those of one entry by name.

    Raises:
        ArgumentError: a .json file there is no result of `benchmarks.tables.publish`.
    """
    contents = {path.stem: _content(path) for path in sorted(folder.glob("*.json"))}
    owned: dict[str, list[Path]] = {name: [] for name in contents}
    for path in sorted(folder.iterdir(), key=lambda path: (path.stem, path.suffix)):
        owners = [name for name in contents if f"{path.stem}-".startswith(f"{name}-")]
        if owners and path.suffix in FIGURES:
            owned[max(owners, key=len)].append(path)
    results = [_result(name, content, owned[name]) for name, content in contents.items()]
    return sorted(results, key=lambda result: (order(result.entry), result.name))


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except json.JSONDecodeError:
        content = None
    if not isinstance(content, dict) or any(field not in content for field in _FIELDS):
        rule = f"JSON with {', '.join(_FIELDS)}"
        raise ArgumentError("result", path.name, rule, "Record it again.", code="file")
    return content


def _result(name: str, content: dict[str, Any], paths: Sequence[Path]) -> Result:
    settings = content["settings"]
    network = settings.get("network")
    profile = network.get("profile") if isinstance(network, dict) else None
    entry, groups = find(name.removesuffix(f"-{profile}"))
    title, command = entry.title, entry.command
    if entry.command:
        title = title.format(**{key: NAMES.get(text, text) for key, text in groups.items()})
        command = command.format(**groups, seeds=_repetitions(settings))
    if profile is not None:
        title += f", {NAMES.get(profile, profile)}"
        command = command and f"{_emulated(network)} -- {command}"
    figures = [
        Figure(path=path, shows=_shows(entry, path.stem[len(name) + 1 :], title)) for path in paths
    ]
    return Result(
        name=name, entry=entry, title=title, command=command, content=content, figures=figures
    )


def _repetitions(settings: dict[str, Any]) -> int:
    seeds = settings.get("seeds", 1)
    return seeds if isinstance(seeds, int) else len(seeds)


def _emulated(network: dict[str, Any]) -> str:
    """The command that emulates a network; what differs from its profile is said."""
    command = f"python -m benchmarks network --profile {network['profile']}"
    delay, mbit = network["one-way ms"], network["Mbit/s"]
    usual = PROFILES.get(network["profile"])
    if usual is None or usual.delay_ms != delay:
        command += f" --delay-ms {delay:g}"
    if mbit is not None and (usual is None or usual.mbit != mbit):
        command += f" --mbit {mbit:g}"
    return f"{command} --means {network['means']}"


def _shows(entry: Entry, suffix: str, title: str) -> str:
    return entry.figures.get(suffix) or f"{title}: {suffix.replace('-', ' ') or 'figure'}."
