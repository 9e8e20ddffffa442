"""A process as its launcher sees it: its frames, its signs of life, its last lines."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from multiprocessing import Pipe

from extensions.runs.processes import starting
from extensions.runs.processes.starting import Template

_LINES = 20
_LINE_LENGTH = 4096


def _discard(frame: bytes) -> None:
    """No frame is expected."""


class Process:
    """A running Python process that leads a session of its own and has a control channel.

    It dies with this process, whatever state either is in (`starting.start`).

    Args:
        module: What it runs, its function `main`, which begins with
            `extensions.runs.processes.open_channel`.
        arguments: The module's arguments; the numbers of its descriptors follow them.
        env: Its whole environment, but for PYTHONPATH, which is this process's path.
        receive: Called in a thread with each frame, and with an empty one when no more will come.
        descriptors: Further file descriptors that it inherits.
        shows_output: Whether what it prints goes where this process prints; otherwise it is kept
            out of sight, and `last_lines` has its end.
        template: What it is a copy of, and dies with; None for a process that begins anew.

    Attributes:
        signs: number of signs of life so far; the first comes when the interpreter has imported the
            module.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str],
        receive: Callable[[bytes], None] = _discard,
        descriptors: Sequence[int] = (),
        shows_output: bool = False,
        template: Template | None = None,
    ) -> None:
        self._receive = receive
        self.signs = 0
        self._output: deque[bytes] = deque(maxlen=_LINES)
        self._control, theirs = Pipe()
        loops: list[Callable[[], None]] = [self._listen]
        output = None
        with ExitStack() as given:
            given.enter_context(theirs)
            if not shows_output:
                reading, output = os.pipe()
                given.callback(os.close, output)
                loops.append(partial(self._drain, reading))
            own = [*descriptors, theirs.fileno()]
            start = starting.start if template is None else template.start
            self._process: starting.Started = start(
                *(module, *arguments), env=env, descriptors=own, output=output
            )
        self._threads = [threading.Thread(target=loop, daemon=True) for loop in loops]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                frame = self._control.recv_bytes()
                self.signs += 1
                if frame:
                    self._receive(frame)
        self._receive(b"")

    def _drain(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as output:
            self._output.extend(iter(lambda: output.readline(_LINE_LENGTH), b""))

    def send(self, frame: bytes) -> None:
        """The frame is on its way; if the other side does not read, a thread waits, not the caller.

        An empty frame tells it to leave.
        """

        def write() -> None:
            with suppress(OSError):
                self._control.send_bytes(frame)

        threading.Thread(target=write, daemon=True).start()

    @property
    def status(self) -> int | None:
        """The exit status, minus the signal's number if one killed it, None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """The process has ended, or `seconds` have passed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def end(self) -> None:
        """The process, and what it started in its session, is killed and reaped."""
        starting.end(self._process)
        for thread in self._threads:
            thread.join(1.0)
        if not any(thread.is_alive() for thread in self._threads):
            self._control.close()

    def last_lines(self) -> str:
        """Returns the end of what the process printed, all of it after `end`; empty if nothing."""
        return b"".join(self._output.copy()).decode(errors="replace").strip()


def describe_ending(status: int) -> str:
    """Returns how a process with this exit status ended, to follow "party 2"."""
    if status >= 0:
        return f"exited with status {status} before it was done"
    named = -status in {*signal.Signals}
    name = f" ({signal.Signals(-status).name})" if named else ""
    return f"was killed by signal {-status}{name}"
