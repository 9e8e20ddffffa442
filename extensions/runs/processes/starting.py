"""How a process begins, anew or as a copy of one that has imported much; it dies with this one."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from queue import SimpleQueue
from typing import Any, TypeAlias

ORPHANED = 71
"""Exit status of a process whose launcher is gone."""
_COPIES = "extensions.runs.processes.copies"
_ON_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_BEGINNING, _ENDING, _LOOK = 60.0, 5.0, 0.5


def die_with(launcher: int) -> None:
    """The kernel kills this process when its launcher dies, even while this process is stopped.

    Linux only; elsewhere the control channel has to tell. The kernel watches the thread that
    started the process, so that a launcher passes 0 unless that thread stays.

    Args:
        launcher: its process id; 0 for no effect.
    """
    if launcher and _ON_LINUX:
        _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != launcher:
            os._exit(ORPHANED)


def start(
    module: str,
    *arguments: str,
    env: Mapping[str, str],
    descriptors: Sequence[int] = (),
    output: int | None = None,
    errors: int | None = None,
) -> subprocess.Popen[bytes]:
    """Returns a Python process that dies with this one from its first instruction on (`die_with`).

    It leads a session of its own and reads nothing.

    Args:
        module: what it runs; its function `main` if it is a copy (`Template.start`).
        arguments: in `sys.argv`; the numbers of its descriptors follow them.
        env: its environment, but for PYTHONPATH, which is this process's path.
        descriptors: what it inherits.
        output: descriptor that it prints to; None for this process's, or the template's.
        errors: descriptor of its standard error; None for `output`.
    """
    program = [sys.executable, "-P", "-X", "faulthandler", "-m", module]
    options: dict[str, Any] = {
        "env": {**env, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        "stdin": subprocess.DEVNULL,
        "stdout": output,
        "stderr": output if errors is None else errors,
        "pass_fds": descriptors,
        "start_new_session": True,
    }
    if _ON_LINUX:
        options["preexec_fn"] = functools.partial(die_with, os.getpid())
    command = [*program, *arguments, *map(str, descriptors)]
    started: Future[subprocess.Popen[bytes]] = Future()
    order = functools.partial(subprocess.Popen, command, **options)
    _orders(os.getpid()).put((started, order))
    return started.result()


@functools.cache
def _orders(process: int) -> SimpleQueue[tuple[Future[Any], Callable[[], Any]]]:
    """Returns the orders of a thread of this process that starts others, and stays to its end."""
    orders: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    def carry_out() -> None:
        while True:
            started, order = orders.get()
            try:
                started.set_result(order())
            except BaseException as error:
                started.set_exception(error)

    threading.Thread(target=carry_out, daemon=True).start()
    return orders


class Copy:
    """A copy of a template, as `subprocess.Popen` tells of a process.

    Args:
        told: gives (process id, None) from the copy, and with its status from the template.
        template: ends all that it has not told of.
    """

    def __init__(self, told: Connection, template: subprocess.Popen[bytes]) -> None:
        self._told, self._template = told, template
        self._reading = threading.Lock()
        self._pid: int | None = None
        self._status: int | None = None

    def _hear(self, seconds: float, *, until_begun: bool = False) -> None:
        """It has ended, or begun if that is asked for, or some seconds have passed."""
        deadline = time.monotonic() + seconds
        while self._status is None and not (until_begun and self._pid):
            left = deadline - time.monotonic()
            if self._told.poll(min(_LOOK, max(0.0, left))):
                with self._reading:
                    if self._told.poll():  # no other thread has read it
                        try:
                            self._pid, self._status = self._told.recv()
                        except EOFError:
                            self._status = self._template.wait()
            elif left <= 0:
                return

    @property
    def pid(self) -> int:
        """The process id, when it has begun.

        Raises:
            ProcessLookupError: its template ended before, or has not begun it for a minute.
        """
        self._hear(_BEGINNING, until_begun=True)
        if self._pid is None:
            reason = "does not begin it" if self._status is None else "ended"
            raise ProcessLookupError(f"its template {reason}")
        return self._pid

    def poll(self) -> int | None:
        """Returns the exit status, None while it runs, and before."""
        self._hear(0.0)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit status; raises subprocess.TimeoutExpired after `timeout` seconds."""
        self._hear(math.inf if timeout is None else timeout)
        if self._status is None:
            raise subprocess.TimeoutExpired("a copy", timeout or 0.0)
        return self._status


Started: TypeAlias = "subprocess.Popen[bytes] | Copy"


def end(*processes: Started) -> None:
    """Processes, and what they started in their sessions, are killed and reaped."""
    for process in processes:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING)


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

    Attributes:
        blocks: how many of `shared_template` it has.
    """

    def __init__(self, *modules: str, env: Mapping[str, str], shows_output: bool = False) -> None:
        self._env = dict(env)
        self.blocks = 0
        self._copies: list[Copy] = []
        self._ordering = threading.Lock()
        self._orders, theirs = Pipe()
        output = None if shows_output else subprocess.DEVNULL
        with theirs:
            descriptors = [theirs.fileno()]
            self._process = start(
                *(_COPIES, *modules), env=env, descriptors=descriptors, output=output
            )

    def start(
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str],
        descriptors: Sequence[int] = (),
        output: int | None = None,
        errors: int | None = None,
    ) -> Copy:
        """Returns a copy that runs a module as the function `start` has a process run it."""
        told, theirs = Pipe(duplex=False)
        copy = Copy(told, self._process)
        changes = dict(env.items() - self._env.items())
        without = [*self._env.keys() - env.keys()]
        outputs = {1: output, 2: output if errors is None else errors}
        own = {place: each for place, each in outputs.items() if each is not None}
        handles = [theirs.fileno(), *descriptors, *own.values()]
        with theirs, self._ordering:
            self._copies = [each for each in self._copies if each.poll() is None] + [copy]
            with suppress(OSError):  # the copies of a template that is gone have ended
                self._orders.send((module, arguments, changes, without, len(descriptors), [*own]))
                for handle in handles:
                    send_handle(self._orders, handle, self._process.pid)
        return copy

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, and all its copies with it."""
        return self._process.poll() is not None

    def end(self) -> None:
        """The template and all its copies, with what these started, are killed and reaped."""
        end(*[copy for copy in self._copies if copy.poll() is None and copy._pid])
        self._process.kill()
        self._process.wait()
        self._orders.close()


_shared: dict[Hashable, Template] = {}
_sharing = threading.Lock()


@contextmanager
def shared_template(
    *modules: str, env: Mapping[str, str], key: Hashable = None, shows_output: bool = False
) -> Iterator[Template | None]:
    """Yields a template that all blocks which are open at once in this process share.

    None but on Linux. What the modules read of the environment while they are imported is the first
    block's.

    Args:
        modules: as for `Template`.
        env: as for `Template`.
        key: blocks of different keys, modules or `shows_output` have different templates.
        shows_output: as for `Template`.
    """
    if not _ON_LINUX:
        yield None
        return
    kind = (modules, key, shows_output)
    with _sharing:
        own = _shared.get(kind)
        if own is None or own.has_ended:
            own = _shared[kind] = Template(*modules, env=env, shows_output=shows_output)
        own.blocks += 1
    try:
        yield own
    finally:
        with _sharing:
            own.blocks -= 1
            if not own.blocks:
                own.end()
                if _shared.get(kind) is own:
                    del _shared[kind]
