"""The `pea` command, in this process or as a user runs it, watched for what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import pytest

from extensions.cli.command import Command as ReadCommand
from extensions.cli.main import PeaCommands, main
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.templates import MARK, copies

PROGRAM = "from extensions.cli.main import main; main()"
KEYS = {"accuracy", "epsilon", "delta", "steps", "rounds", "bytes_per_party", "seconds"}
KEYS |= {"parties", "backend", "data", "opened"}
KEYS |= {"bytes_of_largest_party", "sent_bytes", "received_bytes", "dealt_bytes"}
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PLAIN = (
    *("--lr", 10, "--sample-rate", 0.1, "--max-grad-norm", 1, "--momentum", 0, "--average", 0),
    *("--bias-scale", 1, "--no-whiten", "--no-one-output", "--frac-bits", 20),
)
"""Of runs that nothing is chosen for but their steps: plain ones, whatever their records are."""


def _environment(mark: str) -> dict[str, str]:
    """Variables of a command; the processes that it starts inherit the mark."""
    shown = {"COLUMNS": "200", "GLOO_SOCKET_IFNAME": "lo"}
    return {**os.environ, **shown, MARK: mark, "PYTHONPATH": str(ROOT)}


class Command:
    """One process of the command; those that it starts inherit a mark by which they are found."""

    def __init__(self, *arguments: object) -> None:
        self._mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, arguments)],
            env=_environment(self._mark),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> subprocess.CompletedProcess[str]:
        """Returns exit status and output; fails if it hangs or leaves a process behind."""
        out, err = self.process.communicate(timeout=PATIENCE)
        wait_until(lambda: not self.running(), "the end of all that the command started")
        return subprocess.CompletedProcess([], self.process.returncode, out, err)

    def running(self) -> list[int]:
        """Returns the ids of the live processes that this command started, without its own."""
        return [pid for pid in _marked(self._mark) if pid != self.process.pid]

    def stop(self) -> None:
        """Ends the process and all that it started."""
        for pid in [self.process.pid, *self.running()]:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self.process.communicate()


def _marked(mark: str) -> list[int]:
    """Returns the ids of the live processes that were started with a mark."""
    entry, found = f"{MARK}={mark}".encode(), []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            alive = folder.name.isdigit() and _status(int(folder.name))[0] not in "ZX"
            if alive and entry in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return sorted(found)


def parent_of(pid: int) -> int:
    """Returns the id of the process of which a live process is a child."""
    return int(_status(pid)[1])


def _status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return sys.platform != "linux"


def assert_all_end(pids: list[int]) -> None:
    """Waits for it; whatever the test finds, it leaves no process behind either."""
    try:
        wait_until(lambda: not any(map(is_alive, pids)), "the end of all processes")
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def assert_dies_with(launcher: subprocess.Popen[str]) -> None:
    """The process whose id the launcher prints does not outlive it."""
    with launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        assert is_alive(pid)
        launcher.kill()
        assert_all_end([pid])


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


def once(*arguments: object) -> list[str]:
    """Returns arguments in which the last value of an option takes the place of those before."""
    words = [str(argument) for argument in arguments]
    starts = [at for at, word in enumerate(words) if word.startswith("--")]
    ends = [*starts[1:], len(words)]
    given = {words[start]: words[start:end] for start, end in zip(starts, ends, strict=True)}
    return [
        *words[: min(starts, default=len(words))],
        *(w for each in given.values() for w in each),
    ]


def pea_apart(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Returns what the command printed and its status, as a process of its own that has ended."""
    with started(*arguments) as command:
        return command.finish()


def pea(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Returns what the command printed and its status, run in this process, where all is imported.

    What it starts, however, are processes; none of them may be left.
    """
    mark, others = uuid.uuid4().hex, copies()
    with ExitStack() as stack:
        out, err = (stack.enter_context(_caught(name)) for name in ("stdout", "stderr"))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in _environment(mark).items():
            patch.setenv(name, value)
        status = here(patch, *arguments)
        wait_until(
            lambda: not _marked(mark) and copies() <= others,
            "the end of all that the command started",
        )
        texts = [_written(stream) for stream in (out, err)]
    return subprocess.CompletedProcess([], int(status or 0), *texts)


@contextmanager
def _caught(name: str) -> Iterator[TextIO]:
    """Yields a file for what this process and its children write to standard output or error."""
    before: TextIO = getattr(sys, name)
    descriptor = {"stdout": 1, "stderr": 2}[name]
    kept = os.dup(descriptor)
    with tempfile.TemporaryFile("w+", buffering=1) as file:
        before.flush()
        os.dup2(file.fileno(), descriptor)
        setattr(sys, name, file)
        try:
            yield file
        finally:
            setattr(sys, name, before)
            os.dup2(kept, descriptor)
            os.close(kept)


def _written(file: TextIO) -> str:
    file.flush()
    file.seek(0)
    return file.read()


def report_of(path: Path, slack: float = 0.01) -> dict[str, Any]:
    """Returns the report that a run wrote; it has at least the documented keys.

    What its parties sent they received, but for a part of it: an opening that is on its way.
    """
    report: dict[str, Any] = json.loads(path.read_text())
    assert report.keys() >= KEYS
    sent, received = report["sent_bytes"], report["received_bytes"]
    each = [a + b for a, b in zip(sent, received, strict=True)]
    assert report["bytes_of_largest_party"] == max(each)
    assert report["bytes_per_party"] == round(sum(each) / len(each))
    assert abs(sum(sent) - sum(received)) <= slack * sum(sent)
    return report


def call(*arguments: object) -> Any:
    """Returns what a command returns that is run in this process; what it raises is raised."""
    return PeaCommands.call("pea", *arguments)


def command_of(*words: str) -> ReadCommand:
    """Returns the command of that name, with its options."""
    command, _ = PeaCommands.command("pea", words)
    assert command is not None
    return command


def here(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Any:
    """Returns the status with which the command ends in this process, where all is imported."""
    monkeypatch.setattr(sys, "argv", ["pea", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code
