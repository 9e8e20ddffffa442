"""Calls of TensorFlow to players: without Python's lock, and in the order in which a script asks.

TensorFlow keeps the lock while it connects, tells all players of a function that is new or gone,
and sends a constant to one. If a player never answers, no thread of Python runs again, and nobody
notices that it is lost.
"""

import ctypes
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager import context
from tensorflow.python.framework import c_api_util, constant_op, errors_impl

from tfe_ext.streams.devices import HERE, in_this_process

_HERE = tf.DeviceSpec.from_string(HERE)
_Bytes = ctypes.c_char_p
_SIGNATURES = {
    "TFE_ContextAddFunctionDef": (_Bytes, ctypes.c_size_t),
    "TFE_ContextRemoveFunction": (_Bytes,),
    "TFE_ContextSetServerDef": (ctypes.c_int, _Bytes, ctypes.c_size_t),
}
"""Arguments between the context and the status."""


def let_threads_run() -> None:
    """Lets other threads run while this one waits for players; a second call changes nothing.

    It changes the process's TensorFlow on Linux; elsewhere its libraries have other names. A
    constant on a player's device takes one more request to it.
    """
    library = _library()
    if library is None or constant_op.convert_to_eager_tensor is _constant:
        return
    add, remove, connect = (_unlocked(library, name) for name in _SIGNATURES)

    def add_function(handle: Any, function: Any) -> None:
        with c_api_util.tf_buffer() as buffer:
            pywrap_tf_session.TF_FunctionToFunctionDef(function, buffer)
            definition = pywrap_tf_session.TF_GetBuffer(buffer)
        add(handle, definition, len(definition))

    def remove_function(handle: Any, name: bytes | str) -> None:
        remove(handle, tf.compat.as_bytes(name))

    def set_server_def(handle: Any, keep_alive_seconds: int, definition: bytes) -> None:
        connect(handle, keep_alive_seconds, definition, len(definition))

    pywrap_tfe.TFE_ContextAddFunction = add_function
    pywrap_tfe.TFE_ContextAddFunctionDef = add
    pywrap_tfe.TFE_ContextRemoveFunction = remove_function
    pywrap_tfe.TFE_ContextSetServerDef = set_server_def
    constant_op.convert_to_eager_tensor = _constant


_convert = constant_op.convert_to_eager_tensor


def _constant(value: Any, ctx: Any, dtype: Any = None) -> Any:
    """Returns a constant, which is made here and sent by an operation."""
    if tf.DeviceSpec.from_string(ctx.device_name or HERE).job == _HERE.job:
        return _convert(value, ctx, dtype)
    with tf.device(HERE):
        here = _convert(value, ctx, dtype)
    return tf.raw_ops.Identity(input=here)


def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(Path(tf.__file__).with_name("libtensorflow_cc.so.2")))
    except OSError:
        return None


def _unlocked(library: ctypes.CDLL, name: str) -> Any:
    """Returns a function of TensorFlow's interface for C, which raises what its status says."""
    call = library[name]
    call.argtypes = [ctypes.c_void_p, *_SIGNATURES[name], ctypes.c_void_p]
    call.restype = None
    new = ctypes.CFUNCTYPE(ctypes.c_void_p)(("TF_NewStatus", library))
    delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(("TF_DeleteStatus", library))
    code_of = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(("TF_GetCode", library))
    text_of = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("TF_Message", library))

    def run(handle: Any, *arguments: Any) -> None:
        status = new()
        try:
            call(_pointer(handle, None), *arguments, status)
            if code := code_of(status):
                text = text_of(status).decode(errors="replace")
                raise errors_impl.exception_type_from_error_code(code)(None, None, text)
        finally:
            delete(status)

    return run


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


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
    the call of a function another way: without this, it may read what a variable had before. Each
    call that follows anything but such a call costs a request to every player, and its answer.
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
