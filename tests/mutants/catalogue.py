"""The mutants: patches whose first two lines name the promise that breaks and the tests to fail."""

import shlex
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from extensions.errors import ArgumentError

FOLDER = Path(__file__).parent
PROMISE, TESTS, FILE = "# ", "# Tests: ", "+++ b/"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One fault.

    Attributes:
        name: of its patch; it begins with the area.
        patch: the text.
        promise: what no longer holds.
        tests: pytest's names of the tests of which one is to fail.
        files: what it changes, relative to the tree.
    """

    name: str
    patch: str
    promise: str
    tests: tuple[str, ...]
    files: tuple[Path, ...]

    @classmethod
    def read(cls, path: Path) -> "Mutant":
        """Returns the mutant in a file."""
        patch = path.read_text()
        first, second, *lines = patch.splitlines()
        return cls(
            name=path.stem,
            patch=patch,
            promise=first.removeprefix(PROMISE),
            tests=tuple(shlex.split(second.removeprefix(TESTS))),
            files=tuple(Path(line.removeprefix(FILE)) for line in lines if line.startswith(FILE)),
        )

    @property
    def area(self) -> str:
        """What part of the project it is about."""
        return self.name.partition("-")[0]

    def apply(self, tree: Path, *, dry_run: bool = False) -> str:
        """Changes the tree, and returns what `patch` says if it cannot, else nothing."""
        options = ["--strip=1", "--fuzz=0", "--forward", "--batch", "--reject-file=-"]
        options += ["--no-backup-if-mismatch", f"--directory={tree}"]
        options += ["--dry-run"] if dry_run else []
        run = subprocess.run(["patch", *options], input=self.patch, capture_output=True, text=True)
        return run.stdout + run.stderr if run.returncode else ""


def find_mutants(names: Iterable[str] = ()) -> list[Mutant]:
    """Returns the named mutants, or those of the named areas; without names all.

    Raises:
        ArgumentError: no mutant and no area has that name.
    """
    mutants = [Mutant.read(path) for path in sorted(FOLDER.glob("*.patch"))]
    wanted = set(names)
    if unknown := wanted - {name for m in mutants for name in (m.name, m.area)}:
        areas = sorted({m.area for m in mutants})
        raise ArgumentError("NAME", sorted(unknown), f"names of patches in {FOLDER} or of {areas}")
    return [m for m in mutants if not wanted or {m.name, m.area} & wanted]
