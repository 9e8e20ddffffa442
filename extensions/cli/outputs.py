"""What a command writes replaces nothing that it reads, no private key and no ledger."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extensions.checks import check_writable, is_private_key, is_same
from extensions.cli.files import AGAIN
from extensions.errors import ArgumentError
from extensions.options import Writes
from extensions.options.leaves import Leaf

_READ_IN_FOLDERS = ("party-*", "*.npz", "*.toml")
"""Names of the files that commands read in folders: of records, shares, models, federations."""


@dataclass(frozen=True)
class _Given:
    """An option, with the paths that its value names."""

    leaf: Leaf
    paths: Sequence[Path]

    def targets(self, writes: Writes) -> Iterator[Path]:
        """Yields the files that are written or replaced."""
        for path in self.paths:
            if not writes.inside:
                yield path
            for pattern in writes.inside:
                yield from path.glob(pattern)

    def files(self, *, of_folders: bool) -> Iterator[Path]:
        """Yields the files that are named, and those in folders that are."""
        for path in self.paths:
            if not os.path.isdir(path):
                yield path
            elif of_folders:
                for pattern in _READ_IN_FOLDERS:
                    yield from path.glob(pattern)


def check_outputs(leaves: Sequence[Leaf], values: Mapping[str, Any]) -> None:
    """Checks that all that a command writes can be written, and nothing else is lost by it.

    Args:
        leaves: the command's options; `Writes` annotates paths that are written.
        values: of those that are given, by key; others have their default.

    Guarantees:
        Links are followed. Nothing is written.

    Raises:
        ArgumentError: of `check_writable`; a path whose file another option names too, or that is a
            private key, or a ledger of `pea budget` or the place of one. The report of a run to be
            repeated (again) may be replaced by that of the new one.
    """
    given = [_Given(each, [*_paths_of(values.get(each.key, each.default))]) for each in leaves]
    for one in given:
        if (writes := one.leaf.writes) is not None:
            for path in one.paths:
                check_writable(one.leaf.name, path, folder=bool(writes.inside))
            _check_kept(one, writes, [other for other in given if other is not one])


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


def _check_kept(output: _Given, writes: Writes, others: Sequence[_Given]) -> None:
    from extensions.runs.budget.file import is_ledger  # takes a while, and help needs none

    name = output.leaf.name
    for target in output.targets(writes):
        shown = str(target)
        for other in others:
            if other.leaf.key == AGAIN:
                continue
            if any(is_same(target, one) for one in other.files(of_folders=target in output.paths)):
                raise ArgumentError(name, shown, f"{{{other.leaf.name}}}", code="same-file")
        for kept, code in ((is_private_key, "private-key"), (is_ledger, "ledger")):
            if kept(target):
                raise ArgumentError(name, shown, "", code=code)
