"""The `pea` command as a user runs it: a process of its own, watched for what it leaves behind."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from extensions.cli.main import main
from tests.helpers.paths import ROOT

PROGRAM = "from extensions.cli.main import main; main()"
KEYS = {"accuracy", "epsilon", "delta", "steps", "rounds", "bytes_per_party", "seconds"}
KEYS |= {"parties", "backend", "data", "opened"}
MARK = "PEA_TEST_RUN"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Command:
    """One process of the command; those that it starts inherit a mark by which they are found."""

    def __init__(self, *arguments: object) -> None:
        self._mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, arguments)],
            env={
                **os.environ,
                MARK: self._mark,
                "PYTHONPATH": str(ROOT),
                "COLUMNS": "200",
                "GLOO_SOCKET_IFNAME": "lo",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Returns exit status and output; fails if it takes longer or leaves a process behind."""
        out, err = self.process.communicate(timeout=seconds)
        deadline = time.monotonic() + 5.0
        while (left := self.running()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not left, f"left behind: {left}"
        return subprocess.CompletedProcess([], self.process.returncode, out, err)

    def running(self) -> list[int]:
        """Returns the ids of the live processes that this command started, without its own."""
        mark = f"{MARK}={self._mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and int(entry.name) != self.process.pid:
                    alive = _status(int(entry.name))[0] not in "ZX"
                    if alive and mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return sorted(found)

    def stop(self) -> None:
        """Ends the process and all that it started."""
        for pid in [self.process.pid, *self.running()]:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self.process.communicate()


def _status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def work_of(pid: int) -> float:
    """Returns the processor time of a process in seconds, and 0 if there is none."""
    with suppress(OSError):
        user, system = _status(pid)[11:13]
        return (int(user) + int(system)) / CLOCK_TICKS
    return 0.0


@contextmanager
def started(*arguments: object) -> Iterator[Command]:
    """Yields a running command; whatever happens in the block, nothing of it is left."""
    command = Command(*arguments)
    try:
        yield command
    finally:
        command.stop()


def pea(*arguments: object, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Returns what the command printed and its status, once it has ended."""
    with started(*arguments) as command:
        return command.finish(seconds)


def report_of(path: Path) -> dict[str, Any]:
    """Returns the report that a run wrote; it has at least the documented keys."""
    report: dict[str, Any] = json.loads(path.read_text())
    assert report.keys() >= KEYS
    return report


def here(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> object:
    """Returns the status with which the command ends in this process, where all is imported."""
    monkeypatch.setattr(sys, "argv", ["pea", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code
