"""The parts of a benchmark on federated learning: their runs and tables."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from benchmarks.accuracy.runs import summary
from benchmarks.federated.running import DELTA, FRACTION, PAPERS, Run, Runs, Setting, Size, perform
from benchmarks.tables import Table
from extensions.options import Option
from extensions.rules import Whole

DataDir = Annotated[
    Path | None, Option(help="Folder of MNIST's files; by default mnist in PEA_DATA.")
]
Full = Annotated[bool, Option(help="CNN, E = 5, 100 rounds: hours.")]
Rounds = Annotated[int | None, Option(help="Of every run."), Whole(1)]
Seeds = Annotated[int, Option(help="Runs of each setting."), Whole(1)]
Workers = Annotated[int, Option(help="Processes; 1: this one alone."), Whole(1)]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A part of a benchmark, with a table of its own.

    Attributes:
        settings: of its runs.
        rows: the table, from those runs.
    """

    settings: Sequence[Setting]
    rows: Callable[[Runs], list[dict[str, Any]]]


def swept(
    sweeps: Mapping[str, Sweep], size: Size, *, data_dir: Path | None, seeds: int, workers: int
) -> Iterator[Table]:
    """Makes all runs, and yields each sweep's table under its name."""
    every = [one for sweep in sweeps.values() for one in sweep.settings]
    runs = perform(every, size, data_dir=data_dir, seeds=seeds, workers=workers)
    for name, sweep in sweeps.items():
        yield Table(
            name,
            sweep.rows(runs),
            samples=[
                asdict(one) | {"seed": seed, "accuracies": run.accuracies}
                for one in sweep.settings
                for seed, run in enumerate(runs[one])
            ],
            seeds=seeds,
            delta=DELTA,
            client_fraction=FRACTION,
            noise_of_LocalDP="of its law, from a quicker generator",
            **asdict(size),
            workers=workers,
            load=os.getloadavg()[0],
        )


def sized(usual: Size, full: bool, rounds: int | None) -> tuple[Size, str]:
    """Returns how much work is asked for, and what the names of its results end with."""
    size, suffix = (PAPERS, "-full") if full else (usual, "")
    if rounds is None:
        return size, suffix
    return replace(size, rounds=rounds), f"{suffix}-{rounds}-rounds"


def spent(runs: Sequence[Run], accountant: str = "pld") -> float | str:
    """Returns the largest epsilon of any run at DELTA, "infinite" where nothing is private."""
    ledgers = [run.mechanism.ledger for run in runs]
    costs = [math.inf if one is None else one.get_epsilon(DELTA, accountant) for one in ledgers]
    return "infinite" if math.isinf(max(costs)) else max(costs)


def final(runs: Sequence[Run]) -> dict[str, Any]:
    """Returns the columns on the accuracy after the last round."""
    return summary([run.accuracies[-1] for run in runs]) | {"runs": len(runs)}
