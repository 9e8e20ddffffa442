"""Where the shares of a run are kept: with the program that computes, or elsewhere."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from extensions.runs.checkpoints import CheckpointOptions, PartyCheckpoints
from extensions.runs.model.shares import SharedModel, path_of, write_shares


class Shelves(Protocol):
    """What keeps the shares of each of a program's holders."""

    def checkpoints(
        self, options: CheckpointOptions, settings: Mapping[str, Any]
    ) -> Sequence[PartyCheckpoints]:
        """Returns each holder's checkpoints.

        Args:
            options: what the user asks for.
            settings: further arguments of `PartyCheckpoints`.
        """
        ...

    def save(self, folder: Path, shared: Sequence[SharedModel]) -> None:
        """Each holder's share of a model is in its ``party-R.npz``, readable by its owner only."""
        ...


class Here:
    """Files of this program.

    Args:
        holders: whose shares it has.
    """

    def __init__(self, holders: Sequence[int]) -> None:
        self._holders = holders

    def checkpoints(
        self, options: CheckpointOptions, settings: Mapping[str, Any]
    ) -> list[PartyCheckpoints]:
        """Returns each holder's checkpoints."""
        return [PartyCheckpoints(options, rank, **settings) for rank in self._holders]

    def save(self, folder: Path, shared: Sequence[SharedModel]) -> None:
        """Writes each holder's share."""
        for own in shared:
            write_shares(path_of(folder, own.rank), own)
