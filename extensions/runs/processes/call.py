"""Tasks in a process of their own."""

import pickle
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Self

from extensions.errors import LostError
from extensions.runs.processes.process import Process
from extensions.runs.processes.silence import Silences

_PROGRAM = "extensions.runs.processes"
_ENDING, _LOOK, _SILENCE = 5.0, 1.0, 120.0


class Program:
    """A process of its own that performs one task after the other, and ends with the `with` block.

    Args:
        env: the process's environment.
        lost: makes the error of a lost process from a reason such as "died with status 1".
        silence: seconds without a sign of life after which the process is lost.
    """

    def __init__(
        self, env: Mapping[str, str], lost: Callable[[str], LostError], silence: float = _SILENCE
    ) -> None:
        self._lost, self._silence = lost, silence
        self._frames: SimpleQueue[bytes] = SimpleQueue()
        self._process = Process(_PROGRAM, env=env, receive=self._frames.put)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._process.send(b"")
            self._process.wait(_ENDING)
        self._process.end()

    def call(
        self,
        task: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float,
        on_event: Callable[[Any], None],
    ) -> Any:
        """Returns what ``task(emit, **arguments)`` returned there.

        Args:
            task: "package.module:function".
            arguments: they are pickled, as is what comes back.
            timeout: seconds.
            on_event: called here with what the task passes to ``emit``.

        Raises:
            PeaError: what the task raised, as it was.
            LostError: the process died, fell silent, took too long, or raised an error of another
                kind.
        """
        deadline = time.monotonic() + timeout
        silences = Silences([self._process], self._silence, self._silence)
        self._process.send(pickle.dumps((task, dict(arguments))))
        while True:
            step = min(_LOOK, max(0.0, deadline - time.monotonic()))
            try:
                frame = self._frames.get(timeout=step)
            except Empty:
                if silent := silences.lost(step):
                    raise self._lost(silent[1]) from None
                if time.monotonic() >= deadline:
                    raise self._lost(f"took longer than {timeout:g} s") from None
                continue
            if not frame:
                self._process.wait(_ENDING)
                self._process.end()
                reason = f"died with status {self._process.status}"
                raise self._because(reason, self._process.last_lines())
            kind, body = pickle.loads(frame)
            if kind == "done":
                return body
            if kind == "failed":
                raise body.error or self._because("failed", body.trace)
            on_event(body)

    def _because(self, reason: str, note: str) -> LostError:
        error = self._lost(reason)
        if note:
            error.add_note(note)
        return error


def call(
    task: str,
    arguments: Mapping[str, Any],
    *,
    env: Mapping[str, str],
    timeout: float,
    on_event: Callable[[Any], None],
    lost: Callable[[str], LostError],
    silence: float = _SILENCE,
) -> Any:
    """Returns what ``task(emit, **arguments)`` returned in a `Program` of its own, which then ends.

    Its arguments are those of the program and of its call.
    """
    with Program(env, lost, silence) as program:
        return program.call(task, arguments, timeout=timeout, on_event=on_event)
