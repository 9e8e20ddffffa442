"""Runs that last longer than a sitting: where they are kept, and until when they go on."""

import time
from dataclasses import dataclass
from pathlib import Path

from extensions.errors import ArgumentError

SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """How much of long runs is done now.

    Attributes:
        keep: folder in which every run is kept after each of its rounds, and from which it goes on.
        minutes: no round begins later; the rest is for a next time. Needs a folder to keep it.

    Raises:
        ArgumentError: no time, or a time without a folder.
    """

    keep: Path | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.minutes is None:
            return
        if not self.minutes > 0.0:
            raise ArgumentError("minutes", self.minutes, "above 0", code="range")
        if self.keep is None:
            raise ArgumentError("minutes", self.minutes, "without {keep}", code="conflict")

    def ends(self) -> float:
        """Returns the time of day, in seconds of the system's clock, at which a new one ends."""
        return float("inf") if self.minutes is None else time.time() + SECONDS * self.minutes

    def file(self, *names: str) -> Path | None:
        """Returns the file of a run of these names; None: it is not kept."""
        if self.keep is None:
            return None
        self.keep.mkdir(parents=True, exist_ok=True)
        return self.keep / f"{'-'.join(names)}.npz"
