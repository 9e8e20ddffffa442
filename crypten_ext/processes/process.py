"""One party's process as its launcher sees it: its frames, its signs of life, its last words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from multiprocessing import Pipe
from queue import SimpleQueue

Inbox = SimpleQueue[tuple[int, bytes]]
_ENDING = 5.0
_LINES = 20
_LINE_LENGTH = 4096


class PartyProcess:
    """A running process that is the leader of its own session and has a control channel.

    Args:
        rank: The party's rank.
        env: The party's whole environment.
        inbox: Where its frames go, as (rank, frame).
        program: The module that it runs, with the channel's descriptor and the launcher's id.
    """

    def __init__(
        self,
        rank: int,
        env: dict[str, str],
        inbox: Inbox,
        program: str = "crypten_ext.processes.worker",
    ) -> None:
        self.rank = rank
        self._inbox = inbox
        self._beats = self._counted = 0
        self._silent = 0.0
        self._output: deque[bytes] = deque(maxlen=_LINES)
        in_main_thread = threading.current_thread() is threading.main_thread()
        self._control, theirs = Pipe()
        with theirs:
            options = ["-P", "-X", "faulthandler", "-m", program]
            arguments = [str(theirs.fileno()), str(os.getpid() if in_main_thread else 0)]
            self._process = subprocess.Popen(
                [sys.executable, *options, *arguments],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._threads = [
            threading.Thread(target=loop, daemon=True) for loop in (self._listen, self._drain)
        ]
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
                self._beats += 1
                if frame:
                    self._inbox.put((self.rank, frame))

    def _drain(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            self._output.extend(iter(lambda: output.readline(_LINE_LENGTH), b""))

    def send(self, frame: bytes) -> None:
        """The frame is on its way; a party that does not read blocks a thread, not the caller."""

        def write() -> None:
            with suppress(OSError):
                self._control.send_bytes(frame)

        threading.Thread(target=write, daemon=True).start()

    def listen_from_now(self) -> None:
        """Silence counts from this moment."""
        self._silent, self._counted = 0.0, self._beats

    def silence_after(self, step: float) -> float:
        """Seconds without a sign of life, now that `step` more have passed.

        It stays 0 until the first sign, which comes when the interpreter has imported the package.
        """
        if self._beats != self._counted or not self._beats:
            self.listen_from_now()
        else:
            self._silent += step
        return self._silent

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
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(_ENDING)
        for thread in self._threads:
            thread.join(1.0)
        if not any(thread.is_alive() for thread in self._threads):
            self._control.close()

    def last_lines(self) -> str:
        """The end of what the process printed; empty if it printed nothing."""
        return b"".join(self._output.copy()).decode(errors="replace").strip()
