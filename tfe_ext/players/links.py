"""The links between players, and from them to this process, of which only TensorFlow tells."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from extensions.errors import PlayerLostError

_HERE = "/job:localhost/replica:0/task:0/device:CPU:0"
_CALL = re.compile(
    r"from remote target /job:(\w+)/replica:0/task:(\d+)\S* while calling /tensorflow\.([\w./]+)"
)
_FETCHING = "WorkerService/RecvTensor"


def exchange(devices: Sequence[str]) -> None:
    """Sends a word from each of this process and the players' devices to each other one.

    Raises UnavailableError if one did not reach another one.
    """
    everybody = (_HERE, *devices)

    def run(word: Any) -> list[Any]:
        words, sums = [], []
        for number, device in enumerate(everybody):
            with tf.device(device):
                words.append(word + number)
        for device in everybody:
            with tf.device(device):
                sums.append(tf.add_n(words))
        return sums

    tf.function(run, autograph=False)(tf.constant(0))


def broken_link(
    error: tf.errors.OpError, job: str, players: Mapping[str, str]
) -> PlayerLostError | None:
    """Returns the loss that an error tells of, though all players answer; None if of none.

    The error's text has the calls that failed, the innermost one first. Players are addresses by
    name, in the order of their tasks.
    """
    if not isinstance(error, tf.errors.UnavailableError):
        return None
    names, ends = [*players], _CALL.findall(error.message)
    called = [(names[int(task)] if place == job else None, by) for place, task, by in ends]
    (asked, method), (asking, _), *_ = *called, (None, ""), (None, "")
    if asked is not None and method == _FETCHING and asking not in (None, asked):
        reason = f"is not reached by player {asking}, though both answer this process"
    elif asked is not None:
        reason = "was not reached, though it answers now"
    elif asking is not None:
        asked, reason = asking, "does not reach this process, though it answers"
    else:
        return None
    return PlayerLostError(asked, f"at {players[asked]} {reason}")
