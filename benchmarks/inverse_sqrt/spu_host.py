"""1/sqrt(x) in SecretFlow SPU's ABY3: three processes of an interpreter that has the package."""

import json
import os
import re
import select
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from benchmarks.inverse_sqrt.ports import free_addresses
from benchmarks.inverse_sqrt.session import PARTIES, SPU, Count
from benchmarks.inverse_sqrt.spu_party import METHODS
from extensions.errors import PeaError

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 300.0
_MESSAGES = re.compile(r"Link details: .*send actions (\d+)")


class HostSession:
    """Three parties on SPU's own link over TCP; each answers tasks line by line.

    Args:
        frac_bits: of input and output.
        python: an interpreter that has SPU.
    """

    host = SPU
    dealer_pid = None

    def __init__(self, frac_bits: int, python: str) -> None:
        self._frac_bits = frac_bits
        self._python = python
        self._parties: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        self._log = tempfile.TemporaryFile()
        addresses = ",".join(free_addresses(PARTIES))
        for rank in range(PARTIES):
            self._parties.append(
                subprocess.Popen(
                    [self._python, "-m", "benchmarks.inverse_sqrt.spu_party", str(rank), addresses],
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
        self._log.close()

    @property
    def pids(self) -> list[int]:
        """The parties' process ids."""
        return [party.pid for party in self._parties]

    def warm_up(self, method: str, batch: int) -> Count:
        """Returns the messages that a party sends; SPU does not tell which wait for which."""
        self.call(method, batch, 2)
        begin = self._log.seek(0, os.SEEK_END)
        self._run("profile", method=method, batch=batch)
        self._log.seek(begin)
        log = self._log.read().decode(errors="replace")
        messages = [int(actions) for actions in _MESSAGES.findall(log)]
        return Count(rounds=None, messages=round(statistics.median(messages)))

    def call(self, method: str, batch: int, calls: int) -> list[float]:
        """Returns the seconds of each call, the first party's."""
        seconds: list[float] = self._run("call", method=method, batch=batch, calls=calls)
        return seconds

    def approximate(self, method: str, count: int) -> list[float]:
        """Returns what a method gives at the `points`."""
        found: list[float] = self._run("approximate", method=method, count=count)
        return found

    def _run(self, task: str, **arguments: Any) -> Any:
        """The first party's answer, once all have answered.

        Raises:
            PeaError: a party ended, or did not answer in time; the end of the log is shown.
        """
        line = json.dumps({"task": task, "frac_bits": self._frac_bits, **arguments}) + "\n"
        for party in self._parties:
            assert party.stdin is not None
            party.stdin.write(line)
            party.stdin.flush()
        deadline = time.monotonic() + TIMEOUT
        first, *_ = [self._answer(party, deadline) for party in self._parties]
        return first

    def _answer(self, party: "subprocess.Popen[str]", deadline: float) -> Any:
        assert party.stdout is not None
        left = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([party.stdout], [], [], left)
        line = party.stdout.readline() if ready else ""
        if not line:
            self._log.seek(0)
            end = self._log.read().decode(errors="replace")[-2000:]
            rank = self._parties.index(party)
            raise PeaError(f"SPU's party {rank} gave no answer within {TIMEOUT:g} s:\n{end}")
        return json.loads(line)


def values(*, frac_bits: int, count: int, python: str) -> dict[str, list[float]]:
    """Returns each method's approximations at the `points`."""
    with HostSession(frac_bits, python) as session:
        return {method: session.approximate(method, count) for method in METHODS}
