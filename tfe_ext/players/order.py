"""What a script asks of players elsewhere happens in the order in which it asks."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context

from tfe_ext.streams.devices import HERE, in_this_process

_EXECUTE = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")
_call = context.Context.call_function
_asked = threading.Event()
"""Set while TensorFlow may not have waited for something that the script asked."""
_lock = threading.RLock()


class _Thread(threading.local):
    calls = False
    """Whether the thread calls a function that has run when the call returns."""


_thread = _Thread()


def keep_order() -> None:
    """Lets functions run after all that the script did before; a second call changes nothing.

    TensorFlow does not wait for single operations on other hosts, such as assignments, and sends
    the call of a function another way: without this, it may read what a variable had before.

    Cost:
        A request to every player, and its answer, for each call of a function by the script that
        follows anything but such a call.
    """
    if context.Context.call_function is _call_in_order:
        return
    _asked.set()
    for name in _EXECUTE:
        setattr(pywrap_tfe, name, _noted(getattr(pywrap_tfe, name)))
    context.Context.call_function = _call_in_order


def _noted(execute: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(execute)
    def run(*args: Any) -> Any:
        try:
            return execute(*args)
        finally:
            if not _thread.calls:
                _asked.set()

    return run


def _call_in_order(self: Any, *args: Any, **kwargs: Any) -> Any:
    with _lock:  # no other thread calls a function while this one waits
        if _asked.is_set():
            _wait(self)
    place = self.device_name or HERE
    _thread.calls = in_this_process(place) == place and not self.executor.is_async()
    try:
        return _call(self, *args, **kwargs)
    except BaseException:
        _asked.set()  # what a function left undone
        raise
    finally:
        _thread.calls = False


def _wait(own: Any) -> None:
    _asked.clear()
    try:
        own.sync_executors()
    except tf.errors.OpError:  # of an operation that failed before: TensorFlow tells it once more
        _asked.set()
        own.sync_executors()
