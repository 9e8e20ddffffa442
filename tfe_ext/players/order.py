"""What a script asks of players elsewhere happens in the order in which it asks."""

from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

_call = context.Context.call_function


def keep_order() -> None:
    """Lets functions run after all that the script did before; a second call changes nothing.

    TensorFlow does not wait for single operations on other hosts, such as assignments, and sends
    the call of a function another way: without this, it may read what a variable had before.

    Cost:
        A request to every player, and its answer, for each call of a function by the script.
    """
    context.Context.call_function = _call_in_order


def _call_in_order(self: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        self.sync_executors()
    except tf.errors.OpError:  # of an operation that failed before: TensorFlow tells it once more
        self.sync_executors()
    return _call(self, *args, **kwargs)
