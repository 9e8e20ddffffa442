"""The mutants: a table of faults, each with the promise that breaks and the tests to fail."""

import ast
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutants.edits import Edit, apply

FOLDER = Path(__file__).parent / "table"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One fault.

    Attributes:
        name: in the table; it begins with the area.
        promise: what no longer holds.
        tests: pytest's names of the tests of which one is to fail.
        edits: what makes the fault.
        hangs: whether one of the tests then waits for what never comes.
        gone: why there is nothing left to be changed so; then there are neither tests nor edits.
    """

    name: str
    promise: str
    tests: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    hangs: bool = False
    gone: str = ""

    @classmethod
    def read(cls, name: str, row: dict[str, Any]) -> "Mutant":
        """Returns the mutant in a row of the table."""
        edits = tuple(Edit(**edit) for edit in row.pop("edits", ()))
        return cls(name=name, tests=tuple(row.pop("tests", ())), edits=edits, **row)

    @property
    def area(self) -> str:
        """What part of the project it is about."""
        return self.name.partition("-")[0]

    def changed(self, tree: Path) -> dict[Path, str]:
        """Returns the files that it changes in a tree, as they become.

        Raises:
            LookupError: a statement is not there, or there are several.
        """
        files = {}
        for file in dict.fromkeys(edit.file(tree) for edit in self.edits):
            program = ast.parse(file.read_bytes())
            try:
                apply([edit for edit in self.edits if edit.file(tree) == file], program)
            except LookupError as error:
                raise LookupError(f"{self.name}: {error}") from error
            files[file] = ast.unparse(program)
        return files


def find_mutants(names: Iterable[str] = ()) -> list[Mutant]:
    """Returns the named mutants, or those of the named areas; without names all.

    Raises:
        LookupError: no mutant and no area has that name.
    """
    tables = [tomllib.loads(path.read_text()) for path in sorted(FOLDER.glob("*.toml"))]
    mutants = [Mutant.read(name, row) for table in tables for name, row in table.items()]
    wanted = set(names)
    if unknown := wanted - {name for m in mutants for name in (m.name, m.area)}:
        areas = " ".join(sorted({m.area for m in mutants}))
        raise LookupError(f"{FOLDER} has no mutant and no area {sorted(unknown)}; areas: {areas}")
    return [m for m in mutants if not wanted or {m.name, m.area} & wanted]
