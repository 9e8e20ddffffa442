"""All tuples of a training run, dealt before it: what it asks for is learnt in a rehearsal."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from crypten_ext import dealer
from crypten_ext.dealer.material import MADE_BY
from crypten_ext.dealer.requests import Request
from crypten_ext.pairwise.preparing import digest_of
from crypten_ext.pairwise.preparing import prepare as make
from crypten_ext.processes.joining import together
from crypten_ext.processes.launch import Parties
from crypten_ext.processes.worker import Context
from crypten_ext.registry import enable
from crypten_ext.run.needs import check_lattice
from crypten_ext.run.training import rehearse
from crypten_ext.world import SOFTWARE
from extensions.data.datasets import Split, in_memory
from extensions.errors import PeaError
from extensions.protocols.agreement import Statement
from extensions.public import Public
from extensions.runs.config import TrainConfig
from extensions.runs.manifest import of_tuples, settings_of
from extensions.runs.options import Meeting

import crypten

LONGEST = 7 * 86_400.0
"""Seconds that making all tuples may take."""
REHEARSED = 3
"""Steps of a rehearsal: the first, one to compare it with, and one before the evaluation."""


def prepare(
    config: TrainConfig,
    sizes: Sequence[Public],
    folder: Path,
    progress: Callable[[int, int], None],
) -> list[Path]:
    """Writes each party's file for one run, and returns the paths.

    Whoever calls this knows all tuples: somebody who holds no data, and sides with no party.
    `progress` is called with the number of tuples dealt so far, and that of all.

    Raises ArgumentError if the folder has such files already.
    """
    dealer.check_vacant(dealer.paths_in(folder, config.parties))
    requests, settings = _wanted(config, sizes)
    return dealer.prepare(
        folder,
        config.parties,
        requests,
        settings,
        progress=lambda done: progress(done, len(requests)),
    )


def prepare_together(
    config: TrainConfig,
    sizes: Sequence[Public],
    folder: Path,
    progress: Callable[[int, int], None],
    meeting: Meeting | None,
) -> list[Path]:
    """Has the parties make one run's tuples, and returns the files that were written here.

    Each party calls it where it meets the others. Without a meeting all are processes of this
    machine, and write their files here. `progress` is as in `prepare`.

    Raises:
        ArgumentError: a folder with such a file, or what the parties differ in.
        MissingExtraError: `seal-python` is not installed.
        PartyLostError: a party did not come, or is lost; what was made is gone on with next time.
    """
    check_lattice()
    paths = dealer.paths_in(folder, config.parties)
    own = paths if meeting is None else paths[meeting.rank : meeting.rank + 1]
    dealer.check_vacant(own)
    requests, settings = _wanted(config, sizes)
    if meeting is not None:
        said = {**settings, "parties": config.parties, "tuples": digest_of(requests)}
        with together(meeting, Statement(run=said)):
            enable()
            make(own[0], requests, settings, lambda done: progress(done, len(requests)))
            crypten.uninit()
        return own
    with Parties(config.parties, provider="parties", timeout=LONGEST) as pool:
        pool.run(
            "crypten_ext.run.preparation:make_task",
            per_party=[{"path": path} for path in paths],
            on_event=lambda rank, done: None if rank else progress(done["tuples"], len(requests)),
            requests=requests,
            settings=settings,
        )
    return paths


def make_task(
    context: Context, *, path: Path, requests: Sequence[Request], settings: dict[str, Any]
) -> None:
    """Writes one party's file, from inside its process."""
    enable()
    make(path, requests, settings, lambda done: context.emit({"tuples": done}))


def _wanted(config: TrainConfig, sizes: Sequence[Public]) -> tuple[list[Request], dict[str, Any]]:
    """Returns all tuples of a run, and the settings that files of it are for.

    The run is rehearsed here, on records of zeros, for a few steps.
    """
    settings = of_tuples(settings_of(config, SOFTWARE))
    for rank, own in enumerate(sizes):
        settings |= own.facts(rank)
    made_by = {MADE_BY: config.provider}
    return _requests(replace(config, provider="dealer"), sizes), settings | made_by


def _requests(config: TrainConfig, sizes: Sequence[Public]) -> list[Request]:
    with (
        in_memory([*map(_zeros, sizes)]) as files,
        Parties(config.parties, provider="dealer") as parties,
    ):
        asked = parties.run(
            "crypten_ext.run.preparation:rehearse_task",
            per_party=[{"records": str(path)} for path in files],
            config=config.to_dict(),
        )
    return whole_run(asked[0], config.steps)


def _zeros(own: Public) -> Split:
    return Split(
        train_x=np.zeros((own.records, own.features)),
        train_y=np.zeros(own.records, dtype=np.int64),
        test_x=np.zeros((own.held_out, own.features)),
        test_y=np.zeros(own.held_out, dtype=np.int64),
        train_units=np.arange(own.records),
    )


def rehearse_task(context: Context, *, config: dict[str, Any], records: str) -> list[list[Request]]:
    """Returns what one party asked for: before the first step, in each, and after the last."""
    asked = dealer.current().rehearse()
    rehearse(TrainConfig(**config), Path(records), REHEARSED)
    return asked


def whole_run(asked: Sequence[Sequence[Request]], steps: int) -> list[Request]:
    """Returns the tuples of a run of that many steps, of which at most three were rehearsed.

    `asked` has those before the first step, then those of each step, the last one's with all that
    follows it. Raises PeaError if the steps are not alike.
    """
    before, *each = asked
    if steps == len(each):
        return [request for part in asked for request in part]
    first, *_, last = each
    if any(list(step) != list(first) for step in each[:-1]) or last[: len(first)] != first:
        raise PeaError("This run cannot be prepared, because its steps ask for different tuples.")
    return [*before, *(list(first) * steps), *last[len(first) :]]
