"""The `pea` command in copies of a process that has imported CrypTen: each begins at once."""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from crypten_ext.compat import check_installed
from extensions.runs.processes import Template
from tests.helpers.patience import PATIENCE, wait_until

_PROGRAM = "extensions.cli.main"
_MODULES = ("crypten_ext", "crypten", "crypten_ext.run.backend", "crypten_ext.run.training")
_MODULES = (*_MODULES, "crypten_ext.dealer", "crypten_ext.run.commands", _PROGRAM)


def template() -> Template:
    """Returns what commands are copies of, which its `end` ends together with all of them."""
    check_installed()
    return Template(*_MODULES, env={**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"})


class CopiedCommand:
    """One process of the command, which a session of its own has."""

    def __init__(self, of: Template, *arguments: object) -> None:
        self._said = tempfile.TemporaryFile("w+b")  # noqa: SIM115 (as long as this object)
        env = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
        self.process = of.start(
            _PROGRAM,
            *map(str, arguments),
            env=env,
            descriptors=[],
            output=self._said.fileno(),
        )

    def finish(self) -> subprocess.CompletedProcess[str]:
        """Returns exit status and all output; fails if it hangs or leaves a process behind."""
        status = self.process.wait(PATIENCE)
        wait_until(lambda: not _in_session(self.process.pid), "the end of all that it started")
        with self._said as said:
            said.seek(0)
            return subprocess.CompletedProcess([], status, said.read().decode(), "")

    def stop(self) -> None:
        """Ends the process and all that it started."""
        for pid in _in_session(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self.process.wait(PATIENCE)
        self._said.close()


def _in_session(session: int) -> list[int]:
    """Returns the ids of a session's live processes."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat") if sys.platform == "linux" else ():
        with suppress(OSError):
            state, _, _, own, *_ = stat.read_text().rpartition(")")[2].split()
            if int(own) == session and state not in "ZX":
                found.append(int(stat.parent.name))
    return found
