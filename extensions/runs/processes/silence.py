"""Which of several fell silent: of processes by the others' signs of life rather than a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from extensions.runs.processes.channel import BEAT_INTERVAL
from extensions.runs.processes.process import Process
from extensions.transport.kernel import stopped

_ALL_AT_ONCE = 6.0
_Who = TypeVar("_Who")


class Silence(dict[_Who, float]):
    """For how long each of several has given no sign of life, as counted by whoever looks."""

    def hear(self, signs: Mapping[_Who, bool], step: float) -> None:
        """Counts `step` for all who gave none since the last look; who is left out is let go."""
        heard = {who: 0.0 if spoke else self.get(who, 0.0) + step for who, spoke in signs.items()}
        self.clear()
        self.update(heard)

    def longest(self, limit: float = 0.0) -> list[_Who]:
        """Returns who has been silent for so long, the longest first."""
        silent = [who for who, counted in self.items() if counted >= limit]
        return sorted(silent, key=self.__getitem__, reverse=True)


class Silences:
    """For how long each process has given no sign of life while others gave theirs.

    A busy machine delays all of them; one that is stopped falls behind the others. One that is
    alone has a clock to compare with, and one that has ended is not silent.

    Args:
        processes: by number.
        silence: seconds without a sign of life after which one is lost, where another gives its
            own; if all are silent at once, six times as many.
        starting: seconds until its first sign, where another gives its own.
    """

    def __init__(self, processes: Sequence[Process], silence: float, starting: float) -> None:
        self._processes = processes
        self._limit, self._starting = silence, starting
        self._signs = [process.signs for process in processes]
        self._silence = Silence[int]()
        self._credit = self._all_silent = 0.0

    def lost(self, step: float) -> tuple[int, str] | None:
        """Returns which process is lost, and what became of it, `step` seconds after the last call.

        None if none is; the one that is silent for longest comes first.
        """
        before, self._signs = self._signs, [process.signs for process in self._processes]
        spoke = [now != then for now, then in zip(self._signs, before, strict=True)]
        self._all_silent = 0.0 if any(spoke) else self._all_silent + step
        if len(spoke) == 1 or any(spoke):
            self._credit = max(step, BEAT_INTERVAL)
        spent = min(step, self._credit)
        self._credit -= spent
        works = [process.status is None for process in self._processes]
        self._silence.hear({n: spoke[n] for n, one in enumerate(works) if one}, spent)
        for number in self._silence.longest():
            if reason := self._reason(number):
                return number, reason
        return None

    def _reason(self, number: int) -> str | None:
        silent = self._silence[number]
        if not self._signs[number]:
            late = silent >= self._starting
            return (
                f"gave no sign of life within {self._starting:g} s of its start" if late else None
            )
        if silent >= self._limit:
            return stopped(self._limit)
        if self._all_silent >= _ALL_AT_ONCE * self._limit:
            return f"and all others {stopped(_ALL_AT_ONCE * self._limit)}"
        return None
