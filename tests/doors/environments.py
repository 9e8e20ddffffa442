"""Empty environments, in which what we ship is installed and typed as a user would."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.paths import ROOT

EXTRAS = {"crypten": "*.whl", "fl": "*.tar.gz"}
"""What is installed: the wheel with one extra, the sources with another."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and an empty folder beside it to type in."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def type(self, command: str) -> str:
        """Returns what a shell command prints in the empty folder; fails with it."""
        outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        result = subprocess.run(
            ["bash", "-ec", command],
            cwd=self.folder / "empty",
            env={**outside, "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr[-4000:]}"
        return result.stdout


@contextmanager
def installed(
    built: Path, kind: str, extra: str = "", python: str = sys.executable
) -> Iterator[Environment]:
    """Gives an environment with the built file of a kind; its gigabytes are gone at the end."""
    with tempfile.TemporaryDirectory(prefix="pea-door-") as folder:
        environment = Environment(Path(folder))
        (environment.folder / "empty").mkdir()
        subprocess.run([python, "-m", "venv", environment.folder / "venv"], check=True)
        environment.type(f'pip install -q --no-compile "$(echo {built}/{kind}){extra}"')
        yield environment


def build(folder: Path) -> Path:
    """Writes the archive of sources, and the wheel that is built from it alone."""
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder
