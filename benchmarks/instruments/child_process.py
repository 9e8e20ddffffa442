"""Work in a process of its own: for hosts that fix their devices once, or in another Python."""

import importlib
import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError, ServersLostError
from extensions.runs.processes import call

ROOT = Path(__file__).resolve().parents[2]


def in_child(task: str, **options: Any) -> Any:
    """Returns what ``task(**options)`` returned in a fresh process; both ways are pickled.

    Args:
        task: "package.module:function".
        **options: keyword arguments.

    Raises:
        PeaError: it failed; a note of the error has the traceback.
    """
    return call(
        f"{__name__}:perform",
        {"task": task, "options": options},
        env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
        timeout=math.inf,
        on_event=lambda event: None,
        lost=ServersLostError,
    )


def perform(emit: Callable[[Any], None], *, task: str, options: dict[str, Any]) -> Any:
    """Returns the same, from inside that process."""
    module, _, name = task.partition(":")
    return getattr(importlib.import_module(module), name)(**options)


def in_python(option: str, has: str, python: str, *words: str, **env: str) -> Any:
    """Returns what a programme prints last, as JSON, in another Python at the root of our tree.

    Args:
        option: that named the Python.
        has: what it needs, to follow "a Python that has".
        python: its path.
        words: the programme, as they are typed.
        env: variables of its environment, over those of this process.

    Raises:
        ArgumentError: it fails there; what it says is on standard error.
    """
    command, environment = [python, *words], {**os.environ, **env}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.CalledProcessError) as error:
        raise ArgumentError(option, python, f"a Python that has {has}", code="file") from error
