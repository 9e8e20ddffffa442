"""What the players' processes answer when they are asked whether they are there.

TensorFlow's own server answers a small request that runs no operation. It tells the task and a
number that the process drew when it began, so that a player which was started anew is noticed.
"""

import time
from collections.abc import Mapping

import grpc

from extensions.errors import PlayerLostError

PROBE_SECONDS = 5.0
_PAUSE = 0.5
_METHOD = "/tensorflow.WorkerService/GetStatus"


class Statuses:
    """The answers of the players at these addresses, HOST:PORT by name."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self.addresses = dict(addresses)
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_reconnect_backoff_ms", 1000)]
        self._channels = {
            name: grpc.insecure_channel(address, options=options)
            for name, address in self.addresses.items()
        }

    def ask(self, seconds: float = PROBE_SECONDS) -> dict[str, bytes | None]:
        """Returns what each player says of itself, or None for one that is silent in that time."""
        waiting = {
            name: channel.unary_unary(_METHOD).future(b"", timeout=seconds)
            for name, channel in self._channels.items()
        }
        answers: dict[str, bytes | None] = {}
        for name, answer in waiting.items():
            try:
                answers[name] = bytes(answer.result())
            except grpc.RpcError:
                answers[name] = None
        return answers

    def wait_for_all(self, seconds: float) -> dict[str, bytes]:
        """Returns what each player says of itself, once all do; PlayerLostError after the time."""
        deadline = time.monotonic() + seconds
        answers: dict[str, bytes | None] = dict.fromkeys(self.addresses)
        while True:
            left = deadline - time.monotonic()
            missing = [name for name, answer in answers.items() if answer is None]
            if not missing:
                return {name: answer for name, answer in answers.items() if answer is not None}
            if left <= 0:
                others = "".join(f", nor did player {name}" for name in missing[1:])
                raise PlayerLostError(
                    missing[0],
                    f"did not answer at {self.addresses[missing[0]]} within {seconds:g} s{others}. "
                    "Start it on its host by `pea players`.",
                )
            for name, answer in self.ask(min(left, PROBE_SECONDS)).items():
                answers[name] = answer
            if None in answers.values():
                time.sleep(min(_PAUSE, max(0.0, deadline - time.monotonic())))


def task_of(answer: bytes) -> str:
    """Returns the task that an answer comes from, such as "/job:tfe__.../replica:0/task:0"."""
    start = answer.find(b"/job:")
    return answer[start : answer.find(b"/device:", start)].decode(errors="replace")
