"""What a command writes replaces nothing that it reads, no private key and no ledger."""

import inspect
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from typer.models import ArgumentInfo, OptionInfo

from extensions.checks import check_writable
from extensions.errors import ArgumentError
from extensions.options import Writes

_READ_IN_FOLDERS = ("party-*", "*.npz", "*.toml")
"""Names of the files that commands read in folders: of records, shares, models, federations."""
_PRIVATE_KEY = b"PRIVATE KEY-----"
_HEAD = 1 << 16
"""Bytes of a file in which a private key is looked for."""


@dataclass(frozen=True)
class _Given:
    """A parameter of a command, with what was given.

    Attributes:
        flag: as it is typed.
        writes: how it is written; None: it is not.
        paths: that its value names.
    """

    flag: str
    writes: Writes | None
    paths: Sequence[Path]

    @property
    def name(self) -> str:
        """What it is called in an error."""
        return self.flag.removeprefix("--").replace("-", "_")

    def targets(self) -> Iterator[Path]:
        """Yields the files that are written or replaced."""
        assert self.writes is not None
        for path in self.paths:
            if not self.writes.inside:
                yield path
            for pattern in self.writes.inside:
                yield from path.glob(pattern)

    def files(self, *, of_folders: bool) -> Iterator[Path]:
        """Yields the files that are named, and those in folders that are."""
        for path in self.paths:
            if not os.path.isdir(path):
                yield path
            elif of_folders:
                for pattern in _READ_IN_FOLDERS:
                    yield from path.glob(pattern)


def check_outputs(parameters: Sequence[inspect.Parameter], values: Mapping[str, Any]) -> None:
    """Returns only if all that a command writes can be written, and nothing else is lost by it.

    Args:
        parameters: of the command, as Typer reads them; `Writes` annotates paths that are written.
        values: of them, by name.

    Guarantees:
        Links are followed. Nothing is written.

    Raises:
        ArgumentError: of `check_writable`; a path whose file another option names too, or that is a
            private key, or a ledger of `pea budget` or the place of one. The report of a run to be
            repeated (--again) may be replaced by that of the new one.
    """
    given = [_given(each, values.get(each.name)) for each in parameters]
    for one in given:
        if one.writes is not None:
            for path in one.paths:
                check_writable(one.name, path, folder=bool(one.writes.inside))
            _check_kept(one, [other for other in given if other is not one])


def _given(parameter: inspect.Parameter, value: Any) -> _Given:
    marks = get_args(parameter.annotation)[1:]
    writes = next((mark for mark in marks if isinstance(mark, Writes)), None)
    flag = f"--{parameter.name.replace('_', '-')}"
    for mark in marks:
        if isinstance(mark, ArgumentInfo):
            flag = parameter.name.upper()
        elif isinstance(mark, OptionInfo) and isinstance(mark.default, str):
            flag = mark.default  # where a name stands that is not the parameter's own
    return _Given(flag, writes, [*_paths_of(value)])


def _paths_of(value: Any) -> Iterator[Path]:
    """Yields the paths that a value names: itself, or in a text such as 0=PATH or npz:PATH."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, str):
        for text in {value, *re.split(r"[,+]", value)}:
            _, *rest = re.split("://|[:=]", text, maxsplit=1)
            yield from map(Path, rest)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _paths_of(each)


def _check_kept(output: _Given, others: Sequence[_Given]) -> None:
    for target in output.targets():
        shown, advice = str(target), f"Type: {output.flag} with another path."
        for other in others:
            files = other.files(of_folders=target in output.paths)
            if any(_is_same(target, file) for file in files):
                allowed = f"another file than that of {other.flag}, which would be lost"
                raise ArgumentError(output.name, shown, allowed, advice)
        if _is_private_key(target):
            allowed = "no file with a private key, which would be lost"
            raise ArgumentError(output.name, shown, allowed, advice)
        if _is_ledger(target):
            allowed = "no ledger of `pea budget`, nor named as one: what was spent would be lost"
            raise ArgumentError(output.name, shown, allowed, advice)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which may be still to be written."""
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def _is_private_key(path: Path) -> bool:
    return _PRIVATE_KEY in _head(path)


def _is_ledger(path: Path) -> bool:
    from extensions.runs.budget.file import SUFFIX, read  # takes a while, and help needs none

    if os.path.realpath(path).endswith(SUFFIX):
        return True
    if not _head(path).startswith(b"{"):
        return False
    try:
        read(path)
    except ArgumentError:
        return False
    return True


def _head(path: Path) -> bytes:
    """Returns how a file begins; nothing of what is none, or cannot be read."""
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(_HEAD)
    return b""
