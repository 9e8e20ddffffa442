"""Backends of `pea train`, found by entry point, so that a host can be added without the core."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, cast

from extensions.errors import ArgumentError
from extensions.owners.data import Sizes
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.config import TrainConfig

GROUP = "pea.backends"

Progress = Callable[[dict[str, Any]], None]


class Backend(Protocol):
    """What a module behind an entry point of the group ``pea.backends`` offers."""

    NOTICE: str
    """What the user must know about this backend's trust, printed once a run; or empty."""

    def failure_probability(self, config: TrainConfig, features: int) -> float:
        """Returns how probable it is that sampling or noise of a run deviates from the accounted.

        It is known before the noise is calibrated, as part of delta.
        """

    def deal(self, bind: str, parties: int) -> dict[str, Any]:
        """Returns what a dealer did, once all parties of a run said goodbye to it."""

    def prepare(
        self, config: TrainConfig, sizes: Sizes, folder: Path, progress: Callable[[int, int], None]
    ) -> list[Path]:
        """Returns each party's file of the correlated randomness of one run."""

    def train(
        self,
        config: TrainConfig,
        files: Sequence[Path],
        progress: Progress,
        *,
        save: Path | None,
        timeout: float,
        material: Path | None = None,
        players: Path | None = None,
        checkpoints: CheckpointOptions | None = None,
    ) -> dict[str, Any]:
        """Returns the report of a run over the parties' files, all on this machine.

        With a file of players it runs on them, where the backend has such a thing. With
        checkpoints it can be continued, and is released once.
        """

    def train_party(
        self,
        config: TrainConfig,
        records: Path,
        *,
        rank: int,
        rendezvous: str,
        progress: Progress,
        save: Path | None,
        join_timeout: float,
        dealer: str | None,
        material: Path | None,
        checkpoints: CheckpointOptions | None = None,
    ) -> dict[str, Any]:
        """Returns this party's report of a run whose parties were started one by one."""


def find(name: str) -> Backend:
    """Returns the backend of that name.

    Raises:
        ArgumentError: no installed distribution offers it.
        MissingExtraError: its host is not installed; the message has the pip command.
    """
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        raise ArgumentError("backend", name, f"one of {sorted(found)}", "Install pea-mpl with pip.")
    with _quiet_unless_it_fails():
        return cast(Backend, found[name].load())


@contextmanager
def _quiet_unless_it_fails() -> Iterator[None]:
    """Keeps what hosts print while they are imported, and shows it only if that fails."""
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(shown, kept.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)
