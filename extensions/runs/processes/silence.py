"""Which process of several fell silent, by the others' signs of life rather than by a clock."""

from __future__ import annotations

from collections.abc import Sequence

from extensions.runs.processes.channel import BEAT_INTERVAL
from extensions.runs.processes.process import Process

_ALL_AT_ONCE = 6.0


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
        self._silence, self._starting = silence, starting
        self._signs = [process.signs for process in processes]
        self._silent = [0.0] * len(processes)
        self._credit = [0.0] * len(processes)
        self._all_silent = 0.0

    def lost(self, step: float) -> tuple[int, str] | None:
        """Returns which process is lost, and what became of it, `step` seconds after the last call.

        None if none is; the one that is silent for longest comes first.
        """
        signs = [process.signs for process in self._processes]
        spoke = [now != before for now, before in zip(signs, self._signs, strict=True)]
        self._signs = signs
        self._all_silent = 0.0 if any(spoke) else self._all_silent + step
        for number in range(len(signs)):
            self._wait_for(number, step, spoke)
        order = sorted(range(len(signs)), key=self._silent.__getitem__, reverse=True)
        for number in order:
            if reason := self._reason(number):
                return number, reason
        return None

    def _wait_for(self, number: int, step: float, spoke: Sequence[bool]) -> None:
        if spoke[number] or self._processes[number].status is not None:
            self._silent[number] = self._credit[number] = 0.0
            return
        if len(spoke) == 1 or any(spoke):
            self._credit[number] = max(step, BEAT_INTERVAL)
        spent = min(step, self._credit[number])
        self._silent[number] += spent
        self._credit[number] -= spent

    def _reason(self, number: int) -> str | None:
        silent = self._silent[number]
        if not self._signs[number]:
            late = silent >= self._starting
            return (
                f"gave no sign of life within {self._starting:g} s of its start" if late else None
            )
        if silent >= self._silence:
            return f"stopped answering for {self._silence:g} s"
        if self._all_silent >= _ALL_AT_ONCE * self._silence:
            return f"and all others stopped answering for {_ALL_AT_ONCE * self._silence:g} s"
        return None
