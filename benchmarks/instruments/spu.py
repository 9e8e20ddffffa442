"""SecretFlow SPU's parties: processes of an interpreter that has SPU, which may be another one."""

import json
import os
import select
import subprocess
import tempfile
import time
from contextlib import ExitStack
from typing import Any, Self

from benchmarks.instruments.child_process import ROOT
from benchmarks.instruments.ports import free_addresses
from extensions.errors import PeaError

PARTIES = 3
TIMEOUT = 300.0
_SHOWN = 2000


def versions(python: str) -> dict[str, str] | None:
    """Returns the versions of SPU, and of what it needs, in an interpreter; None without SPU."""
    code = "from importlib.metadata import version; import jax, spu.libspu; "
    code += "print(*map(version, ('spu', 'jax', 'numpy')))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    names = ("spu", "jax beside spu", "numpy beside spu")
    return dict(zip(names, done.stdout.split(), strict=True))


class SpuParties:
    """Parties on SPU's own link over TCP; each answers tasks line by line, as JSON.

    Args:
        python: an interpreter that has SPU.
        module: run as ``python -m MODULE RANK ADDRESSES``; it reads one line a task, a dictionary,
            and writes one line, the answer.
        count: of parties.
    """

    def __init__(self, python: str, module: str, count: int = PARTIES) -> None:
        self._python, self._module, self._count = python, module, count
        self._stack = ExitStack()
        self._read = 0
        self._parties: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        self._log = self._stack.enter_context(tempfile.TemporaryFile())
        addresses = ",".join(free_addresses(self._count))
        for rank in range(self._count):
            self._parties.append(
                subprocess.Popen(
                    [self._python, "-m", self._module, str(rank), addresses],
                    env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    text=True,
                )
            )
        return self

    def __exit__(self, *error: Any) -> None:
        for party in self._parties:
            party.kill()
            party.communicate()
        self._stack.close()

    @property
    def pids(self) -> list[int]:
        """The parties' process ids."""
        return [party.pid for party in self._parties]

    def logged(self) -> str:
        """Returns what the parties have logged since this was last asked."""
        text = self._log_from(self._read)
        self._read += len(text)
        return text.decode(errors="replace")

    def _log_from(self, begin: int) -> bytes:
        """The log from a byte on; the parties write at the same file offset, which stays."""
        descriptor = self._log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size - begin, begin)

    def run(self, **task: Any) -> list[Any]:
        """Returns the parties' answers, by rank.

        Raises:
            PeaError: a party ended, or did not answer in time; the end of the log is shown.
        """
        line = json.dumps(task) + "\n"
        for party in self._parties:
            assert party.stdin is not None
            party.stdin.write(line)
            party.stdin.flush()
        deadline = time.monotonic() + TIMEOUT
        return [self._answer(rank, deadline) for rank in range(self._count)]

    def _answer(self, rank: int, deadline: float) -> Any:
        output = self._parties[rank].stdout
        assert output is not None
        ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
        line = output.readline() if ready else ""
        if not line:
            end = self._log_from(0).decode(errors="replace")[-_SHOWN:]
            raise PeaError(f"SPU's party {rank} gave no answer within {TIMEOUT:g} s:\n{end}")
        return json.loads(line)
