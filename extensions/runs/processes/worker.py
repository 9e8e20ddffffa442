"""A process performs the tasks that its launcher sends."""

import atexit
import importlib
import operator
import os
import pickle
import sys
import threading
from functools import partial
from typing import Any, NoReturn

from extensions.runs.processes.channel import Channel


def serve(channel: Channel, context: Any) -> NoReturn:
    """Performs tasks until the launcher says leave, and leaves with status 0; a failure is told.

    The answer to a task, a pickled ("package.module:function", {arguments}), is what
    ``function(context, **arguments)`` returns.
    """
    while frame := channel.tasks.get():
        channel.answer("done", partial(_perform, context, frame))
    _leave()


def _leave() -> NoReturn:
    """Ends the process as its end of `main` would, but does not take its memory apart.

    For a host that was imported that takes half a second, and unshares every page of a copy.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _perform(context: Any, frame: bytes) -> Any:
    path, arguments = pickle.loads(frame)
    module, _, name = path.partition(":")
    task = operator.attrgetter(name)(importlib.import_module(module))
    return task(context, **arguments)
