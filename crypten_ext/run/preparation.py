"""All tuples of a training run, dealt before it: what it asks for is learnt in a rehearsal."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crypten_ext import dealer
from crypten_ext.dealer.requests import Request
from crypten_ext.processes.launch import Parties
from crypten_ext.processes.worker import Context
from crypten_ext.run.training import rehearse
from crypten_ext.world import SOFTWARE
from extensions.errors import ArgumentError, PeaError
from extensions.owners.data import Sizes, Split, write_records
from extensions.runs.config import TrainConfig
from extensions.runs.manifest import of_tuples, settings_of

REHEARSED = 3
"""Steps of a rehearsal: the first, one to compare it with, and one before the evaluation."""


def prepare(
    config: TrainConfig,
    sizes: Sizes,
    folder: Path,
    progress: Callable[[int, int], None],
) -> list[Path]:
    """Writes each party's file for one run, and returns the paths.

    The run is rehearsed here, on records of zeros, for a few steps. Whoever calls this knows all
    tuples: somebody who holds no data, and sides with no party.

    Args:
        config: resolved settings of the run.
        sizes: of the parties' records.
        folder: where to.
        progress: called with the number of tuples dealt so far, and that of all.

    Raises:
        ArgumentError: sizes for another number of parties, or a folder with such files.
    """
    if sizes.parties != config.parties:
        raise ArgumentError(
            "records", f"sizes of {sizes.parties} parties", f"sizes of {config.parties} parties"
        )
    dealer.check_vacant(folder, config.parties)
    requests = _requests(config, sizes)
    settings = of_tuples(settings_of(config, SOFTWARE)) | sizes.facts()
    return dealer.prepare(
        folder,
        config.parties,
        requests,
        settings,
        progress=lambda done: progress(done, len(requests)),
    )


def _requests(config: TrainConfig, sizes: Sizes) -> list[Request]:
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as scratch:
        files = [
            write_records(_zeros(sizes, rank), Path(scratch) / f"party-{rank}.npz")
            for rank in range(config.parties)
        ]
        with Parties(config.parties, provider="dealer") as parties:
            asked = parties.run(
                "crypten_ext.run.preparation:rehearse_task",
                per_party=[{"records": str(path)} for path in files],
                config=config.to_dict(),
            )
    return whole_run(asked[0], config.steps)


def _zeros(sizes: Sizes, rank: int) -> Split:
    train_rows, test_rows = sizes.train[rank], sizes.test[rank]
    return Split(
        train_x=np.zeros((train_rows, sizes.features)),
        train_y=np.zeros(train_rows, dtype=np.int64),
        test_x=np.zeros((test_rows, sizes.features)),
        test_y=np.zeros(test_rows, dtype=np.int64),
        train_units=np.arange(train_rows),
    )


def rehearse_task(context: Context, *, config: dict[str, Any], records: str) -> list[list[Request]]:
    """Returns what one party asked for: before the first step, in each, and after the last."""
    asked = dealer.current().rehearse()
    rehearse(TrainConfig(**config), Path(records), REHEARSED)
    return asked


def whole_run(asked: Sequence[Sequence[Request]], steps: int) -> list[Request]:
    """Returns the tuples of a run of that many steps, of which at most three were rehearsed.

    Args:
        asked: before the first step, in each step, and with the last one all that follows it.
        steps: of the run.

    Raises:
        PeaError: the steps are not alike.
    """
    before, *each = asked
    if steps == len(each):
        return [request for part in asked for request in part]
    first, *_, last = each
    if any(list(step) != list(first) for step in each[:-1]) or last[: len(first)] != first:
        raise PeaError("The steps of this run ask for different tuples: it cannot be prepared.")
    return [*before, *(list(first) * steps), *last[len(first) :]]
