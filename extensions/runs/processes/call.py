"""One task in a process of its own."""

import pickle
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from extensions.errors import LostError
from extensions.runs.processes.failure import Failure
from extensions.runs.processes.process import Process
from extensions.runs.processes.silence import Silences

_PROGRAM = "extensions.runs.processes"
_ENDING = 5.0
_LOOK = 1.0
_SILENCE = 120.0


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
    """Returns what ``task(emit, **arguments)`` returned in a process of its own, which then ends.

    Args:
        task: "package.module:function".
        arguments: they are pickled, as is what comes back.
        env: the process's environment.
        timeout: seconds.
        on_event: called here with what the task passes to ``emit``.
        lost: makes the error of a lost process from a reason such as "died with status 1".
        silence: seconds without a sign of life after which the process is lost.

    Raises:
        PeaError: what the task raised, as it was.
        LostError: the process died, fell silent, took too long, or raised an error of another kind.
    """
    deadline = time.monotonic() + timeout
    frames: SimpleQueue[bytes] = SimpleQueue()
    process = Process(_PROGRAM, env=env, receive=frames.put)
    silences = Silences([process], silence, silence)
    try:
        process.send(pickle.dumps((task, dict(arguments))))
        while frame := _next(frames, silences, deadline, lost):
            kind, body = pickle.loads(frame)
            if kind == "done":
                process.send(b"")
                process.wait(_ENDING)
                return body
            if kind == "failed":
                raise _error(body, lost)
            on_event(body)
        process.wait(_ENDING)
    except Empty:
        raise lost(f"took longer than {timeout:g} s") from None
    finally:
        process.end()
    raise _noted(lost(f"died with status {process.status}"), process.last_lines())


def _next(
    frames: SimpleQueue[bytes],
    silences: Silences,
    deadline: float,
    lost: Callable[[str], LostError],
) -> bytes:
    """Returns the next frame; raises Empty at the deadline, and a loss if the process is silent."""
    while True:
        step = min(_LOOK, max(0.0, deadline - time.monotonic()))
        try:
            return frames.get(timeout=step)
        except Empty:
            if silent := silences.lost(step):
                raise lost(silent[1]) from None
            if time.monotonic() >= deadline:
                raise


def _error(failure: Failure, lost: Callable[[str], LostError]) -> Exception:
    return failure.error or _noted(lost("failed"), failure.trace)


def _noted(error: LostError, note: str) -> LostError:
    if note:
        error.add_note(note)
    return error
