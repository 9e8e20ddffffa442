"""The parts of a benchmark on federated learning: their runs, tables and figures."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from benchmarks import tables
from benchmarks.accuracy.publishing import Line, lines
from benchmarks.accuracy.runs import summary
from benchmarks.federated.running import DELTA, FRACTION, PAPERS, Run, Runs, Setting, Size, perform
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
    """A part of a benchmark, with a table and a figure of its own.

    Attributes:
        settings: of its runs.
        rows: the table, from those runs.
        figure: the lines by title, from them.
        abscissa: of the lines.
        logarithmic: whether that axis is.
    """

    settings: Sequence[Setting]
    rows: Callable[[Runs], list[dict[str, Any]]]
    figure: Callable[[Runs], Mapping[str, Line]]
    abscissa: str
    logarithmic: bool = True


def publish(
    sweeps: Mapping[str, Sweep], size: Size, *, data_dir: Path | None, seeds: int, workers: int
) -> None:
    """Makes all runs, and writes each sweep's table and figure under its name."""
    every = [one for sweep in sweeps.values() for one in sweep.settings]
    runs = perform(every, size, data_dir=data_dir, seeds=seeds, workers=workers)
    for name, sweep in sweeps.items():
        tables.publish(
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
        lines(name, sweep.figure(runs), sweep.abscissa, logarithmic=sweep.logarithmic)


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


def by_round(runs: Sequence[Run]) -> Line:
    """Returns rounds, mean accuracies and their standard deviations."""
    accuracies = zip(*(run.accuracies for run in runs), strict=True)
    return _line(dict(enumerate(accuracies, start=1)))


def by_abscissa(points: Mapping[float, Sequence[Run]]) -> Line:
    """Returns abscissas in their order, mean final accuracies and their standard deviations."""
    return _line({x: [run.accuracies[-1] for run in points[x]] for x in sorted(points)})


def _line(accuracies: Mapping[float, Sequence[float]]) -> Line:
    found = [summary(values) for values in accuracies.values()]
    means, spreads = ([one[name] for one in found] for name in found[0])
    return list(accuracies), means, spreads
