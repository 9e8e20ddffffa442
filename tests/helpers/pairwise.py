"""Parties that make tuples in one process, in lockstep, and what each of them is sent."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from extensions.ring.fixed_point import Integers
from extensions.ring.tuples import Sharing
from extensions.two_party.pairwise.peers import Peers, meet
from extensions.two_party.pairwise.rounds import Making, Round

Alter = Callable[[int, int, int, bytes], bytes]
"""What arrives of a message: the round, its sender, its receiver and what was sent."""


class Views:
    """What each party is sent.

    Attributes:
        messages: by receiver, (sender, message) in their order.
    """

    def __init__(self, parties: int) -> None:
        self.messages: list[list[tuple[int, bytes]]] = [[] for _ in range(parties)]

    def bytes_to(self, receiver: int, sender: int) -> int:
        return sum(len(message) for one, message in self.messages[receiver] if one == sender)


def lockstep(
    makings: Sequence[Making[Any]], alter: Alter | None = None, views: Views | None = None
) -> list[Any]:
    """Returns what each party's making returns; every message must have the size that is due."""
    rounds: list[Round | None] = []
    results: list[Any] = [None] * len(makings)
    for rank, making in enumerate(makings):
        try:
            rounds.append(next(making))
        except StopIteration as stop:
            rounds.append(None)
            results[rank] = stop.value
    number = 0
    while any(one is not None for one in rounds):
        assert all(one is not None for one in rounds), "parties take different numbers of rounds"
        came: list[Mapping[int, bytes]] = []
        for rank, one in enumerate(rounds):
            sent = {other: rounds[other].send.get(rank, b"") for other in one.sizes}
            assert {other: len(message) for other, message in sent.items()} == dict(one.sizes)
            meant = {other for other, each in enumerate(rounds) if each.send.get(rank)}
            assert meant == {other for other, size in one.sizes.items() if size}
            if alter is not None:
                sent = {o: alter(number, o, rank, message) for o, message in sent.items()}
            if views is not None:
                views.messages[rank] += sent.items()
            came.append(sent)
        for rank, making in enumerate(makings):
            try:
                rounds[rank] = making.send(came[rank])
            except StopIteration as stop:
                rounds[rank], results[rank] = None, stop.value
        number += 1
    return results


class Parties:
    """Parties that have met.

    Args:
        number: of them.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.peers: list[Peers] = lockstep([meet(rank, number) for rank in range(number)])

    def run(
        self,
        make: Callable[[Peers], Making[Any]],
        views: Views | None = None,
        alter: Alter | None = None,
    ) -> list[Any]:
        """Returns what each party makes."""
        return lockstep([make(peers) for peers in self.peers], alter, views)


def combined(shares: Sequence[Integers], sharing: Sharing) -> Integers:
    """Returns what all parties' shares stand for."""
    join = np.add if sharing == "sum" else np.bitwise_xor
    result: Integers = join.reduce(np.stack(shares))
    return result
