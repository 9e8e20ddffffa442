"""A function of ours that runs on a network, in a process of its own."""

import importlib
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.network.calibration import current
from benchmarks.network.inside import program
from benchmarks.network.profiles import Link
from extensions.errors import ArgumentError, EmulationError

_ARGUMENTS, _ANSWER = "arguments", "answer"


def call(
    link: Link, task: str, *, timeout: float = 600.0, **arguments: Any
) -> tuple[Any, dict[str, Any]]:
    """Returns what ``task(**arguments)`` returned on the network, and what `current` said there.

    Args:
        link: of the network, see `benchmarks.network.link`.
        task: "package.module:function"; the processes it starts are on the network as well.
        timeout: seconds for all of it.
        **arguments: pickled, as is the answer.

    Raises:
        ArgumentError: the task has no such form, or this process runs on such a network itself.
        EmulationError: there is no such network, the task failed (the error output says why), or
            it took too long. No process of it is left.
    """
    if not all(task.partition(":")):
        raise ArgumentError("task", task, "'package.module:function'")
    in_main_thread = threading.current_thread() is threading.main_thread()
    launcher = os.getpid() if in_main_thread else 0
    with TemporaryDirectory(prefix="network-") as folder:
        Path(folder, _ARGUMENTS).write_bytes(pickle.dumps((task, arguments)))
        path = [entry or os.getcwd() for entry in sys.path]
        code = f"import sys; sys.path = {path!r}; from benchmarks.network import calling; "
        code += f"calling.answer({folder!r})"
        command = program(link, launcher, [sys.executable, "-c", code])
        what = f"{task} on the network {link.profile}"
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise EmulationError(
                what, f"not done after {timeout:g} s", "Give it longer."
            ) from error
        if done.returncode:
            reason = f"status {done.returncode}"
            raise EmulationError(what, reason, "Its error output says more.")
        answer: tuple[Any, dict[str, Any]] = pickle.loads(Path(folder, _ANSWER).read_bytes())
        return answer


def answer(folder: str) -> None:
    """Calls the function that the folder names, and writes its result there."""
    task, arguments = pickle.loads(Path(folder, _ARGUMENTS).read_bytes())
    module, _, name = task.partition(":")
    result = getattr(importlib.import_module(module), name)(**arguments)
    Path(folder, _ANSWER).write_bytes(pickle.dumps((result, current())))
