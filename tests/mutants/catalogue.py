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
        patch: its file.
        promise: what no longer holds.
        tests: pytest's names of the tests of which one is to fail.
        files: what it changes, relative to the tree.
    """

    patch: Path
    promise: str
    tests: tuple[str, ...]
    files: tuple[Path, ...]

    @classmethod
    def read(cls, patch: Path) -> "Mutant":
        """Returns the mutant in a file."""
        first, second, *lines = patch.read_text().splitlines()
        return cls(
            patch=patch,
            promise=first.removeprefix(PROMISE),
            tests=tuple(shlex.split(second.removeprefix(TESTS))),
            files=tuple(Path(line.removeprefix(FILE)) for line in lines if line.startswith(FILE)),
        )

    @property
    def name(self) -> str:
        """The patch's name, which begins with the area."""
        return self.patch.stem

    @property
    def area(self) -> str:
        """What part of the project it is about."""
        return self.name.partition("-")[0]

    def apply(self, tree: Path, *, dry_run: bool = False) -> str:
        """Changes the tree, and returns what `patch` says if it cannot, else nothing."""
        options = ["--strip=1", "--fuzz=1", "--forward", "--batch", "--reject-file=-"]
        options += ["--no-backup-if-mismatch", f"--directory={tree}", f"--input={self.patch}"]
        options += ["--dry-run"] if dry_run else []
        run = subprocess.run(["patch", *options], capture_output=True, text=True)
        return run.stdout + run.stderr if run.returncode else ""


def find_mutants(names: Iterable[str] = ()) -> list[Mutant]:
    """Returns the named mutants, or those of the named areas; without names all.

    Raises:
        ArgumentError: no mutant and no area has that name.
    """
    mutants = [Mutant.read(patch) for patch in sorted(FOLDER.glob("*.patch"))]
    wanted = set(names)
    if unknown := wanted - {name for m in mutants for name in (m.name, m.area)}:
        areas = sorted({m.area for m in mutants})
        raise ArgumentError("NAME", sorted(unknown), f"names of patches in {FOLDER} or of {areas}")
    return [m for m in mutants if not wanted or {m.name, m.area} & wanted]
