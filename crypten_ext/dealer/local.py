"""A dealer's process on this machine, as the launcher of its parties sees it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from crypten_ext.processes.failures import describe_ending
from extensions.errors import DealerLostError

_ENDING = 5.0
_LAST_BYTES = 4000


class LocalDealer:
    """A running `crypten_ext.dealer` that listens on the loopback interface.

    Args:
        parties: number of parties.
        env: its whole environment.
        log: file for what it prints.
    """

    def __init__(self, parties: int, env: dict[str, str], log: Path) -> None:
        self._log = log
        in_main_thread = threading.current_thread() is threading.main_thread()
        with socket.create_server(("127.0.0.1", 0)) as listener, log.open("wb") as output:
            host, port = listener.getsockname()
            self.address = f"{host}:{port}"
            launcher = os.getpid() if in_main_thread else 0
            arguments = [str(listener.fileno()), str(parties), str(launcher)]
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-X",
                    "faulthandler",
                    "-m",
                    "crypten_ext.dealer",
                    *arguments,
                ],
                env=env,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def loss(self, step: float) -> DealerLostError | None:
        """The error that its end calls for; None while it runs, or if every party said goodbye.

        Its parties find its silence, so that the `step` seconds since the last call do not count.
        """
        status = self._process.poll()
        if not status:
            return None
        error = DealerLostError(f"{describe_ending(status)}.")
        if said := self._log.read_bytes()[-_LAST_BYTES:].decode(errors="replace").strip():
            error.add_note(f"The last lines that the dealer printed:\n{said}")
        return error

    def end(self) -> None:
        """The process is killed and reaped."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING)
        if self._process.stdin is not None:
            self._process.stdin.close()
