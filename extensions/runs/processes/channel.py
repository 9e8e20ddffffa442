"""A started process's end of the control channel: tasks come by it, and answers and failures go."""

from __future__ import annotations

import atexit
import importlib
import operator
import os
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NoReturn

from extensions.errors import PeaError
from extensions.runs.processes.starting import ORPHANED

BEAT_INTERVAL = 1.0
LOST_STATUS = 70
"""Exit status of a process whose main thread would wait for a lost one without end."""
_LAST_SECONDS = 5.0
_TRACE_LIMIT = 8000


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An exception that travels whatever it holds.

    Attributes:
        kinds: Names of the exception's class and of all classes above it, its own first.
        text: Its message.
        trace: Its traceback, shortened from the beginning.
        pickled: The exception itself, if it is one of the project's and can be pickled.
    """

    kinds: tuple[str, ...]
    text: str
    trace: str
    pickled: bytes | None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Returns the failure that `error` is."""
        try:
            pickled = pickle.dumps(error) if isinstance(error, PeaError) else None
        except Exception:  # whatever its attributes raise
            pickled = None
        return cls(
            kinds=tuple(kind.__name__ for kind in type(error).mro()),
            text=str(error),
            trace="".join(traceback.format_exception(error))[-_TRACE_LIMIT:],
            pickled=pickled,
        )

    @property
    def name(self) -> str:
        """The name of the exception's class."""
        return self.kinds[0]

    @property
    def error(self) -> PeaError | None:
        """The project's own exception as it was raised: class, attributes, message and notes.

        None for an exception of another origin, whose class this process may not have.
        """
        error: PeaError | None = None if self.pickled is None else pickle.loads(self.pickled)
        return error


class Channel:
    """A process's end of the control channel, with signs of life; threads may share it.

    The channel has a file descriptor of its own, so that nothing that is printed can reach it. The
    process ends when the launcher's end of the channel is closed.

    Attributes:
        tasks: The frames that came from the launcher.
    """

    def __init__(self, control: Connection) -> None:
        self._control = control
        self._lock = threading.Lock()
        self.tasks: SimpleQueue[bytes] = SimpleQueue()
        for loop in (self._listen, self._beat):
            threading.Thread(target=loop, daemon=True).start()

    def say(self, kind: str, body: object) -> None:
        """The launcher gets (kind, body)."""
        self._send(pickle.dumps((kind, body), protocol=pickle.HIGHEST_PROTOCOL))

    def answer(self, kind: str, work: Callable[[], Any]) -> None:
        """The launcher gets (kind, result), or ("failed", Failure) if there is none to send."""
        try:
            self.say(kind, work())
        except BaseException as error:
            self.say("failed", Failure.of(error))

    def _send(self, frame: bytes) -> None:
        with self._lock:
            self._control.send_bytes(frame)

    def _beat(self) -> None:
        with suppress(OSError):
            while True:
                self._send(b"")
                time.sleep(BEAT_INTERVAL)

    def _listen(self) -> None:
        try:
            while True:
                self.tasks.put(self._control.recv_bytes())
        except (EOFError, OSError):
            os._exit(ORPHANED)


_own: Channel | None = None


def open_channel() -> Channel:
    """Returns the channel to the launcher; the first call of a programme that `Process` starts.

    Its descriptor is the last one of `sys.argv`, and taken from it.
    """
    global _own
    descriptor = int(sys.argv.pop())
    os.set_inheritable(descriptor, False)
    _own = Channel(Connection(descriptor))
    return _own


def end_with(error: BaseException, status: int) -> NoReturn:
    """Ends this process at once, and its launcher, if it has one, gets the error as it is.

    For a thread that knows why the main thread will never answer.
    """
    if _own is not None:
        telling = threading.Thread(target=_own.say, args=("failed", Failure.of(error)), daemon=True)
        telling.start()
        telling.join(_LAST_SECONDS)
    os._exit(status)


def serve(channel: Channel, context: Any) -> NoReturn:
    """Performs tasks until the launcher says leave, and leaves with status 0; a failure is told.

    The answer to a task, a pickled ("package.module:function", {arguments}), is what
    ``function(context, **arguments)`` returns. At the end the memory is not taken apart: for a host
    that was imported that takes half a second, and unshares every page of a copy.
    """
    while frame := channel.tasks.get():
        channel.answer("done", partial(_perform, context, frame))
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _perform(context: Any, frame: bytes) -> Any:
    path, arguments = pickle.loads(frame)
    module, _, name = path.partition(":")
    return operator.attrgetter(name)(importlib.import_module(module))(context, **arguments)
