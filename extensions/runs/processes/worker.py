"""A process performs the tasks that its launcher sends."""

import importlib
import operator
import pickle
from functools import partial
from typing import Any

from extensions.runs.processes.channel import Channel


def serve(channel: Channel, context: Any) -> None:
    """Performs tasks until the launcher says leave; a failure is told, and is not the end.

    The answer to a task, a pickled ("package.module:function", {arguments}), is what
    ``function(context, **arguments)`` returns.
    """
    while frame := channel.tasks.get():
        channel.answer("done", partial(_perform, context, frame))


def _perform(context: Any, frame: bytes) -> Any:
    path, arguments = pickle.loads(frame)
    module, _, name = path.partition(":")
    task = operator.attrgetter(name)(importlib.import_module(module))
    return task(context, **arguments)
