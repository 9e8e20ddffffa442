"""A process that has imported what several will need: they are copies of it, and begin at once."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import threading
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.reduction import send_handle
from typing import Protocol

from extensions.runs.processes import lifetime

_PROGRAM = "extensions.runs.processes.copies"
_ENDING = 5.0
_BEGINNING = 60.0


class Started(Protocol):
    """A process that was started, as `subprocess.Popen` tells of it."""

    @property
    def pid(self) -> int:
        """The process id."""

    def poll(self) -> int | None:
        """Returns the exit status, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit status; raises subprocess.TimeoutExpired after `timeout` seconds."""


class Copy:
    """A copy of a template, as the launcher sees it."""

    def __init__(self) -> None:
        self.began: Future[int] = Future()
        self.ended: Future[int] = Future()

    def has_no_template(self, status: int) -> None:
        """It ended with its template, unless it had ended before."""
        if not self.began.done():
            self.began.set_exception(ProcessLookupError("its template ended"))
        if not self.ended.done():
            self.ended.set_result(status)

    @property
    def pid(self) -> int:
        """The process id, when it has begun.

        Raises:
            ProcessLookupError: its template ended before, or has not begun it for a minute.
        """
        try:
            return self.began.result(_BEGINNING)
        except NotYet:
            raise ProcessLookupError("its template does not begin it") from None

    def poll(self) -> int | None:
        """Returns the exit status, None while it runs, and before."""
        return self.ended.result() if self.ended.done() else None

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit status; raises subprocess.TimeoutExpired after `timeout` seconds."""
        try:
            return self.ended.result(timeout)
        except NotYet:
            raise subprocess.TimeoutExpired("a copy", timeout or 0.0) from None


class Template:
    """A process that imports modules, once, and becomes as many programmes as are asked for.

    A module that cannot be imported is left to the programmes. Copies share the memory of what was
    imported, and nothing that is drawn: the generators that Python, NumPy and torch draw from where
    no other is named begin anew in each, from the operating system. Copies die with their template,
    and it dies with this process, whatever state each is in. Linux only.

    Args:
        modules: none of them may start a thread that copies would miss, or draw what must differ
            between copies.
        env: its environment, but for PYTHONPATH, which is this process's path.
        shows_output: whether it prints, and copies without an output of their own, where this
            process prints; otherwise that goes nowhere.
    """

    def __init__(self, *modules: str, env: Mapping[str, str], shows_output: bool = False) -> None:
        self._env = dict(env)
        self._orders, theirs = Pipe()
        with theirs:
            descriptors = [theirs.fileno()]
            self._process = lifetime.start(
                *(_PROGRAM, *modules),
                env=env,
                descriptors=descriptors,
                output=None if shows_output else subprocess.DEVNULL,
            )
        self._lock = threading.Lock()
        self._copies: list[Copy] = []
        self._status: int | None = None
        self._begun: dict[int, Copy] = {}
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def start(
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str],
        descriptors: Sequence[int],
        output: int | None,
    ) -> Copy:
        """Returns a copy that runs a module in a session of its own, as `lifetime.start` does.

        Args:
            module: its function `main` is called.
            arguments: in `sys.argv`; the numbers of its descriptors follow them.
            env: its environment.
            descriptors: what it inherits.
            output: descriptor that it prints to; None for the template's.
        """
        copy = Copy()
        with self._lock:
            self._copies.append(copy)
            if self._status is not None:
                copy.has_no_template(self._status)
        changes = dict(env.items() - self._env.items())
        without = list(self._env.keys() - env.keys())
        handles = [*descriptors, *([] if output is None else [output])]
        order = (module, arguments, changes, without, len(descriptors), len(handles))
        with suppress(OSError):  # the copies of a template that is gone have ended
            self._orders.send_bytes(pickle.dumps(order))
            for handle in handles:
                send_handle(self._orders, handle, self._process.pid)
        return copy

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, and all its copies with it."""
        return self._status is not None

    def end(self) -> None:
        """The template and all its copies, with what these started, are killed and reaped."""
        begun = [copy for copy in self._copies if copy.began.done() and copy.poll() is None]
        for copy in begun:
            with suppress(OSError):
                os.killpg(copy.pid, signal.SIGKILL)
        deadline = time.monotonic() + _ENDING
        for copy in begun:
            with suppress(subprocess.TimeoutExpired):
                copy.wait(max(0.0, deadline - time.monotonic()))
        self._process.kill()
        self._listener.join(1.0)
        self._is_gone()
        if not self._listener.is_alive():
            self._orders.close()

    def _listen(self) -> None:
        """Copies begin in the order of `start`; all have ended when their template has."""
        waiting = iter(self._copies)
        with suppress(EOFError, OSError):
            while True:
                pid, status = pickle.loads(self._orders.recv_bytes())
                if status is None:
                    copy = self._begun[pid] = next(waiting)
                    copy.began.set_result(pid)
                else:
                    self._begun.pop(pid).ended.set_result(status)
        self._is_gone()

    def _is_gone(self) -> None:
        with self._lock:
            self._status = self._process.wait()
            for copy in self._copies:
                copy.has_no_template(self._status)


@dataclass
class _Shared:
    template: Template
    blocks: int = 0


_shared: dict[Hashable, _Shared] = {}
_sharing = threading.Lock()


@contextmanager
def shared_template(
    *modules: str, env: Mapping[str, str], key: Hashable = None
) -> Iterator[Template]:
    """Yields a template that all blocks which are open at once in this process share.

    What the modules read of the environment while they are imported is the first block's.

    Args:
        modules: as for `Template`.
        env: as for `Template`.
        key: blocks of different keys, or modules, have different templates.
    """
    kind = (modules, key)
    with _sharing:
        own = _shared.get(kind)
        if own is None or own.template.has_ended:
            own = _shared[kind] = _Shared(Template(*modules, env=env))
        own.blocks += 1
    try:
        yield own.template
    finally:
        with _sharing:
            own.blocks -= 1
            if not own.blocks:
                own.template.end()
                if _shared.get(kind) is own:
                    del _shared[kind]
