"""Messages among all parties in lockstep, and how several computations share their rounds.

A making is a generator: it yields what this party sends to each other one, and how much it is to
get, and is sent what came. All parties run the same makings in one order.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Round:
    """What a party sends to others in one round, and the sizes, known beforehand, of what comes."""

    send: Mapping[int, bytes] = field(default_factory=dict)
    sizes: Mapping[int, int] = field(default_factory=dict)


Making = Generator[Round, Mapping[int, bytes], Result]


def together(makings: Sequence[Making[Any]]) -> Making[list[Any]]:
    """Returns what all of them return; the longest of them decides how many rounds there are.

    At every party each making must take the same number of rounds.
    """
    results: list[Any] = [None] * len(makings)
    waiting: dict[int, Round] = {}
    for index, making in enumerate(makings):
        _go_on(making, index, None, waiting, results)
    while waiting:
        came = yield Round(
            {one: b"".join(parts) for one, parts in _by_party(waiting, "send").items()},
            {one: sum(parts) for one, parts in _by_party(waiting, "sizes").items()},
        )
        left = {one: memoryview(message) for one, message in came.items()}
        rounds, waiting = waiting, {}
        for index, one in rounds.items():
            own: dict[int, bytes] = {}
            for party, size in one.sizes.items():
                own[party], left[party] = bytes(left[party][:size]), left[party][size:]
            _go_on(makings[index], index, own, waiting, results)
    return results


def _go_on(
    making: Making[Any],
    index: int,
    came: Mapping[int, bytes] | None,
    waiting: dict[int, Round],
    results: list[Any],
) -> None:
    try:
        waiting[index] = next(making) if came is None else making.send(came)
    except StopIteration as stop:
        results[index] = stop.value


def _by_party(rounds: Mapping[int, Round], name: str) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for one in rounds.values():
        for party, part in getattr(one, name).items():
            found.setdefault(party, []).append(part)
    return found
