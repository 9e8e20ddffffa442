"""One task in a process of its own."""

import pickle
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from extensions.errors import LostError
from extensions.runs.processes.failure import Failure
from extensions.runs.processes.process import Process

_PROGRAM = "extensions.runs.processes"
_ENDING = 5.0


def call(
    task: str,
    arguments: Mapping[str, Any],
    *,
    env: Mapping[str, str],
    timeout: float,
    on_event: Callable[[Any], None],
    lost: Callable[[str], LostError],
) -> Any:
    """Returns what ``task(emit, **arguments)`` returned in a process of its own, which then ends.

    Args:
        task: "package.module:function".
        arguments: they are pickled, as is what comes back.
        env: the process's environment.
        timeout: seconds.
        on_event: called here with what the task passes to ``emit``.
        lost: makes the error of a lost process from a reason such as "died with status 1".

    Raises:
        PeaError: what the task raised, as it was.
        LostError: the process died, took too long, or raised an error of another kind.
    """
    deadline = time.monotonic() + timeout
    frames: SimpleQueue[bytes] = SimpleQueue()
    process = Process(_PROGRAM, env=env, receive=frames.put)
    try:
        process.send(pickle.dumps((task, dict(arguments))))
        while frame := frames.get(timeout=max(0.0, deadline - time.monotonic())):
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


def _error(failure: Failure, lost: Callable[[str], LostError]) -> Exception:
    return failure.error or _noted(lost("failed"), failure.trace)


def _noted(error: LostError, note: str) -> LostError:
    if note:
        error.add_note(note)
    return error
