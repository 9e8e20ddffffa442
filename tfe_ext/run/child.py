"""The process in which a run of `pea train --backend tfe` has TensorFlow, and its parent's side.

Started as a module with the descriptor of a channel and the id of its launcher, it reads one task
and answers with events, and at last with a report or an error.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from extensions.errors import PeaError, ServersLostError
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.config import TrainConfig
from extensions.runs.processes import die_with

_LINES = 20
_ENDING = 5.0
_EVENT, _REPORT, _REFUSED, _FAILED = "event", "report", "refused", "failed"


class Child:
    """The parent's side; leaving the block ends the process.

    Args:
        timeout: seconds from now after which the run is given up.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout

    def __enter__(self) -> Self:
        self._output = tempfile.TemporaryFile()
        self._channel, theirs = Pipe()
        in_main_thread = threading.current_thread() is threading.main_thread()
        launcher = str(os.getpid() if in_main_thread else 0)
        path = os.pathsep.join(part or os.getcwd() for part in sys.path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tfe_ext.run.child", str(theirs.fileno()), launcher],
                env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()
        if kind is None:
            self._wait()
        self._process.kill()
        self._process.wait()
        self._output.close()

    def run(
        self,
        config: dict[str, Any],
        files: list[Path],
        save: Path | None,
        players: Path | None,
        checkpoints: CheckpointOptions | None,
        progress: Callable[[dict[str, Any]], None],
    ) -> dict[str, Any]:
        """Returns the report of `tfe_ext.run.training.train`.

        Raises:
            PeaError: what it raised.
            ServersLostError: the process died or ran out of time.
        """
        self._channel.send((config, files, save, players, checkpoints))
        while True:
            kind, content = self._receive()
            if kind == _EVENT:
                progress(content)
            elif kind == _REPORT:
                return dict(content)
            elif kind == _REFUSED:
                raise PeaError(content)
            else:
                raise self._lost("failed", content)

    def _receive(self) -> tuple[str, Any]:
        left = self._deadline - time.monotonic()
        try:
            if not self._channel.poll(max(0.0, left)):
                raise self._lost(f"took longer than {self._timeout:g} s", "")
            kind, content = self._channel.recv()
        except (EOFError, ConnectionError):
            self._wait()
            status = self._process.poll()
            raise self._lost(f"died with status {status}", self._last_lines()) from None
        return kind, content

    def _lost(self, reason: str, details: str) -> ServersLostError:
        error = ServersLostError(reason)
        if details:
            error.add_note(details)
        return error

    def _wait(self) -> None:
        try:
            self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            return

    def _last_lines(self) -> str:
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_LINES:])


def main() -> None:
    """The child's side."""
    die_with(int(sys.argv[2]))
    with Connection(int(sys.argv[1])) as channel:
        config, files, save, players, checkpoints = channel.recv()
        try:
            from tfe_ext.run.training import train

            report = train(
                TrainConfig(**config),
                files,
                lambda event: channel.send((_EVENT, event)),
                save,
                players,
                checkpoints,
            )
            answer: tuple[str, Any] = _REPORT, report
        except BrokenPipeError:
            return
        except PeaError as error:
            answer = _REFUSED, str(error)
        except Exception:
            answer = _FAILED, traceback.format_exc()
        channel.send(answer)


if __name__ == "__main__":
    main()
