"""How TensorFlow's threads share the cores and wait for work, in players and in their client.

TensorFlow is made for long operations. A step on shares has a thousand short ones a player, which
wait for others: what its threads do meanwhile, and how many of them wake each other for a message,
is a sixth of the processors' time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from extensions.machine import cores_of_each

if TYPE_CHECKING:
    import tensorflow as tf

THREADS = "TF_NUM_INTRAOP_THREADS"
"""TensorFlow's name in the environment for the number of threads that work on one operation."""
SHORT_WAYS = {
    # Sockets are read by the thread that waits for the message, and not by one that wakes it.
    "GRPC_EXPERIMENTS": "-event_engine_client,-event_engine_listener",
    "GRPC_POLL_STRATEGY": "poll",
    # No message asks for an answer by which to measure the link; as much is under way as one has.
    "TF_GRPC_DEFAULT_OPTIONS": "grpc.http2.bdp_probe=0,grpc.http2.lookahead_bytes=16777216",
}
"""How a message wakes few threads: names and values of gRPC's and TensorFlow's environment."""


def environment_of(players: int) -> dict[str, str]:
    """Returns the environment of so many players of this host: this process's own and defaults.

    By default each has an equal part of the cores for one operation: players that all use all of
    them wait for each other's threads. Operations still run beside each other, on all cores.
    """
    return {THREADS: str(cores_of_each(players)), **SHORT_WAYS, **os.environ}


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

    It counts for connections that are made from now on; what the environment says already stays.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    for name, value in SHORT_WAYS.items():
        os.environ.setdefault(name, value)
    own = context.context()
    config = own._config or tf.compat.v1.ConfigProto()
    config.MergeFrom(asleep())
    own._config = config
