"""How TensorFlow's threads share the cores and wait for work, in players and in their client.

TensorFlow is made for long operations. A step on shares has a thousand short ones a player, which
wait for others: what its threads do meanwhile, and how many of them wake each other for a message,
is a tenth of the processors' time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from extensions.machine import cores_of_each

if TYPE_CHECKING:
    import tensorflow as tf

THREADS = "TF_NUM_INTRAOP_THREADS"
"""TensorFlow's name in the environment for the number of threads that work on one operation."""
POLLING = "GRPC_EXPERIMENTS"
"""gRPC's name in the environment for a list of ways of working; a minus turns one off."""
_BY_RECEIVER = "-event_engine_client,-event_engine_listener"
"""Sockets are read by the thread that waits for the message, and not by one that wakes it."""


def environment_of(players: int) -> dict[str, str]:
    """Returns what so many players of this host have as environment: this process's own.

    Where it does not say how many threads work on one operation, each has an equal part of the
    cores: players that all use all of them wait for each other's threads. Operations still run
    beside each other, on all cores.
    """
    return {THREADS: str(cores_of_each(players)), POLLING: _BY_RECEIVER, **os.environ}


def asleep() -> tf.compat.v1.ConfigProto:
    """Returns the configuration of a server whose threads sleep while they have nothing to do.

    By default each looks for work in all others' queues some thousand times first.
    """
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto()
    config.experimental.disable_thread_spinning = True
    return config


def wait_for_players() -> None:
    """Lets this process's threads, and those that work for it in players, wait as players' do.

    It counts for connections that are made from now on; what the environment says of gRPC stays.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    os.environ.setdefault(POLLING, _BY_RECEIVER)
    own = context.context()
    config = own._config or tf.compat.v1.ConfigProto()
    config.MergeFrom(asleep())
    own._config = config
