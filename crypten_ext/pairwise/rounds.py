"""Rounds of `extensions.two_party` among CrypTen's parties, over the connections that they have."""

from typing import Any, TypeVar

import torch

from crypten_ext.ring.exchange import begun
from extensions.two_party import Making, Round

Result = TypeVar("Result")
_TAG = 2
"""Of these messages, beside CrypTen's own and rows on their way from their owners."""


def run(making: Making[Result], group: Any) -> Result:
    """Returns what is made; all parties of the group call it, in one order.

    Raises PartyLostError if a party is lost, or sent a message of another size; it is named.
    """
    came: Any = None
    while True:
        try:
            step = making.send(came)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        came = _exchange(step, group)


def _exchange(step: Round, group: Any) -> dict[int, bytes]:
    sizes = {rank: size for rank, size in step.sizes.items() if size}
    rooms = {rank: torch.empty(size, dtype=torch.uint8) for rank, size in sizes.items()}
    sent = {
        rank: torch.frombuffer(bytearray(message), dtype=torch.uint8)
        for rank, message in step.send.items()
        if message
    }
    for work in begun(sent, rooms, group, _TAG):
        work.wait()
    return {
        rank: rooms[rank].numpy().tobytes() if size else b"" for rank, size in step.sizes.items()
    }
