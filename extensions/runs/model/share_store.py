"""Where the shares of a run are kept: with the program that computes, or elsewhere."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from extensions.errors import ArgumentError
from extensions.runs.checkpoints import CheckpointOptions, PartyCheckpoints, runs_in
from extensions.runs.model.files import MODEL_FILE
from extensions.runs.model.shares import SharedModel, path_of, read_shares, write_shares


class ShareStore(Protocol):
    """What keeps the shares of each of a program's holders."""

    def checkpoints(
        self, options: CheckpointOptions, settings: Mapping[str, Any]
    ) -> Sequence[PartyCheckpoints]:
        """Returns each holder's checkpoints, given further arguments of `PartyCheckpoints`."""
        ...

    def check_free(self, folder: Path, checkpoints: CheckpointOptions | None) -> None:
        """Checks that no holder's folder has another run's model (`check_free`)."""
        ...

    def save(self, folder: Path, shared: Sequence[SharedModel]) -> None:
        """Writes each holder's share of a model in its ``party-R.npz``, for its owner only."""
        ...


def check_free(folder: Path, checkpoints: CheckpointOptions | None) -> None:
    """Checks that a folder has no model that one saved there would replace, or be mixed with.

    What a model cost is spent: it may be the only copy. A run that is resumed may have written its
    own shares there before.
    """
    shares = sorted(path for path in folder.glob("party-*.npz") if path.stem[6:].isdecimal())
    resumed = checkpoints is not None and checkpoints.resume
    own = runs_in(checkpoints.folder) if checkpoints is not None and resumed and shares else set()
    also = " and for {checkpoint}" if checkpoints is not None and not resumed else ""
    for path in [folder / MODEL_FILE, *shares]:
        if path.exists() and _run_of(path) not in own:
            allowed = "a folder without another run's model or shares"
            advice = f"It would replace {path.name}. Choose another folder for {{save}}{also}."
            raise ArgumentError("save", str(folder), allowed, advice, code="file")


def _run_of(path: Path) -> str | None:
    """Name of the run whose share a file is; None if it is of no run that kept checkpoints."""
    try:
        return read_shares(path).run or None
    except ArgumentError:
        return None


class LocalShareStore:
    """Files of this program, which has the holders' shares."""

    def __init__(self, holders: Sequence[int]) -> None:
        self._holders = holders

    def checkpoints(
        self, options: CheckpointOptions, settings: Mapping[str, Any]
    ) -> list[PartyCheckpoints]:
        """Returns each holder's checkpoints."""
        return [PartyCheckpoints(options, rank, **settings) for rank in self._holders]

    def check_free(self, folder: Path, checkpoints: CheckpointOptions | None) -> None:
        """Checks that the folder has no other run's model."""
        check_free(folder, checkpoints)

    def save(self, folder: Path, shared: Sequence[SharedModel]) -> None:
        """Writes each holder's share."""
        for own in shared:
            write_shares(path_of(folder, own.rank), own)
