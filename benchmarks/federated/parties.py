"""The processor time of each party of a round."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from fl.protocols import Machine, Message, Output

Made = TypeVar("Made")


class Timed(Machine):
    """A party whose processor time is measured.

    Args:
        inner: its part of the protocol.

    Attributes:
        seconds: of processor time that its part has taken.
    """

    def __init__(self, inner: Machine) -> None:
        super().__init__(inner.round, inner.party)
        self.inner = inner
        self.seconds = 0.0

    def _timed(self, outputs: Iterable[Output]) -> Iterator[Output]:
        """Yields the outputs; what is done between two of them counts, what others do does not."""
        began = time.process_time()
        for output in outputs:
            self.seconds += time.process_time() - began
            yield output
            began = time.process_time()
        self.seconds += time.process_time() - began

    def start(self, now: float) -> Iterator[Output]:
        """Yields what the party does of its own accord."""
        yield from self._timed(self.inner.start(now))

    def receive(self, message: Message, now: float) -> Iterator[Output]:
        """Yields what follows from a message."""
        yield from self._timed(self.inner.receive(message, now))

    def expire(self, timer: str, now: float) -> Iterator[Output]:
        """Yields what follows from a timer."""
        yield from self._timed(self.inner.expire(timer, now))
