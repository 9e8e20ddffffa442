"""What a run did, round by round."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from extensions.errors import ArgumentError, optional
from extensions.printing import table

SHOWN = ("accuracy", "loss", "epsilon", "bytes_total")
"""What a figure shows, unless it is asked for something else."""


@dataclass(frozen=True, kw_only=True)
class RoundReport:
    """Reports one round: who took part, its bytes, and how good the model is.

    Attributes:
        number: from 1.
        selected: clients that were asked.
        included: clients whose updates are in the new model; empty if the round failed.
        refused: why clients were left out, by client.
        vanished: parties that dropped out.
        failure: why the round failed and the model stayed as it was; else empty.
        bytes_up: sent to the server.
        bytes_down: sent by the server.
        bytes_total: sent by anybody to anybody, in encoded messages.
        virtual_seconds: from the first message to the mean, by the network's delays.
        seconds: that the round really took, with training and evaluation; left out of comparisons.
        accuracy: share of the test set that the new model classifies rightly; None unless asked.
        loss: mean over the test set; None unless asked.
        metrics: further ones of the test set, by name.
        trained: mean of the metrics that clients' training returned, by name.
        epsilon: of all rounds so far, at the delta that `fit` was given; None without one.
        of_clients: loss, accuracy and metrics of the new model on clients' own held-out records,
            by client and name. They are measured beside the protocol, so messages and
            guarantees leave them out.

    Examples:
        >>> report = fl.protocols.RoundReport(
        ...     number=1, selected=(0, 1), included=(0,), refused={1: "late"}
        ... )
        >>> report.refused
        {1: 'late'}
    """

    number: int
    selected: tuple[int, ...]
    included: tuple[int, ...] = ()
    refused: dict[int, str] = field(default_factory=dict)
    vanished: tuple[int, ...] = ()
    failure: str = ""
    bytes_up: int = 0
    bytes_down: int = 0
    bytes_total: int = 0
    virtual_seconds: float = 0.0
    seconds: float = field(default=0.0, compare=False)
    accuracy: float | None = None
    loss: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    trained: dict[str, float] = field(default_factory=dict)
    epsilon: float | None = None
    of_clients: dict[int, dict[str, float]] = field(default_factory=dict)

    def numbers(self) -> dict[str, float | None]:
        """Returns what a table or a curve has of the round, by name.

        Of clients' own records it has the mean of the clients, each as much as any other.
        """
        names = ("bytes_up", "bytes_down", "bytes_total", "virtual_seconds", "seconds")
        own = list(self.of_clients.values())
        return {
            "round": self.number,
            "selected": len(self.selected),
            "included": len(self.included),
            **{name: getattr(self, name) for name in (*names, "accuracy", "loss", "epsilon")},
            **self.metrics,
            **{f"trained/{name}": value for name, value in self.trained.items()},
            **{f"clients/{k}": sum(each[k] for each in own) / len(own) for k in (own or [{}])[0]},
        }


@dataclass(repr=False)
class History:
    """Lists the reports of a run's rounds, in order.

    Examples:
        >>> run = fl.FederatedAveraging(**setup, aggregator=fl.PlainAggregator())
        >>> history = run.fit(rounds=2, test_set=test)
        >>> len(history), history.accuracy == history[-1].accuracy
        (2, True)
    """

    rounds: list[RoundReport] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rounds)

    def __iter__(self) -> Iterator[RoundReport]:
        return iter(self.rounds)

    def __getitem__(self, index: int) -> RoundReport:
        return self.rounds[index]

    @property
    def accuracy(self) -> float | None:
        """Accuracy of the last round that was evaluated; None if none was."""
        return next((r.accuracy for r in reversed(self.rounds) if r.accuracy is not None), None)

    def __repr__(self) -> str:
        rows = [{**each.numbers(), "failure": each.failure} for each in self.rounds]
        return table(f"History of {len(self)} rounds", rows)

    def to_frame(self) -> Any:
        """Returns a pandas.DataFrame of a row a round, as `RoundReport.numbers`, by its number.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        pd = optional("pandas", "pandas", "fl")
        return pd.DataFrame([each.numbers() for each in self.rounds]).set_index("round")

    def plot(self, label: str = "", /, **others: "History") -> Any:
        """Returns a matplotlib Figure of accuracy, loss, epsilon and bytes by round.

        Args:
            label: of this run, in the legend.
            **others: further runs beside it, by their labels.

        Raises:
            ArgumentError: there are no rounds.
            MissingExtraError: matplotlib is not installed.
        """
        return plot({label or "this run": self, **others})

    def rounds_to(self, accuracy: float) -> int | None:
        """Returns the first round with at least this accuracy; None if there is none."""
        reached = (r.number for r in self.rounds if (r.accuracy or 0.0) >= accuracy)
        return next(reached, None)

    def to_json(self) -> str:
        """Returns the history as JSON text, from which `from_json` makes an equal one."""
        rounds = [asdict(report) for report in self.rounds]
        for entry in rounds:  # what most runs have not, and earlier versions did not write
            for name in ("trained", "epsilon"):
                if entry[name] in ({}, None):
                    del entry[name]
        return json.dumps(rounds)

    @classmethod
    def from_json(cls, text: str) -> "History":
        """Returns the history that `to_json` wrote.

        Raises:
            ArgumentError: the text is none.
        """
        try:
            rounds = [_report(entry) for entry in json.loads(text)]
            if [report.number for report in rounds] != list(range(1, len(rounds) + 1)):
                raise ValueError("rounds that are not numbered from 1")
            return cls(rounds)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            rule = "what History.to_json wrote"
            raise ArgumentError("history", text[:80], rule, code="file") from error


def _report(entry: dict[str, Any]) -> RoundReport:
    for name in ("selected", "included", "vanished"):
        entry[name] = tuple(entry[name])
    entry["refused"] = {int(client): reason for client, reason in entry["refused"].items()}
    entry["of_clients"] = {int(client): own for client, own in entry["of_clients"].items()}
    report = RoundReport(**entry)
    numbers = (report.accuracy, report.loss, report.epsilon, *report.metrics.values())
    numbers += tuple(report.trained.values())
    numbers += tuple(each for own in report.of_clients.values() for each in own.values())
    whole = (*report.selected, *report.included, *report.vanished)
    whole += (report.number, report.bytes_up, report.bytes_down, report.bytes_total)
    texts = (report.failure, *report.refused.values())
    real = (report.virtual_seconds, report.seconds, *(one for one in numbers if one is not None))
    for kind, values in ((int, whole), (str, texts), ((int, float), real)):
        if not all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            raise TypeError("a value of another type")
    return report


def plot(histories: Mapping[str, History], *, columns: tuple[str, ...] = SHOWN) -> Any:
    """Returns a matplotlib Figure with a panel for each number and a line for each run.

    Args:
        histories: of runs, by the names in the legend.
        columns: numbers of `RoundReport.numbers`; those that no run has are left out. Bytes are
            those of all rounds so far, in MB.

    Raises:
        ArgumentError: no run has any of these numbers.
        MissingExtraError: matplotlib is not installed.
    """
    drawing = optional("matplotlib.figure", "matplotlib", "explain")
    rows = {name: [each.numbers() for each in history] for name, history in histories.items()}
    panels = [column for column in columns if any(_points(own, column) for own in rows.values())]
    if not panels:
        rule = "numbers that a round has, such as 'bytes_total'"
        raise ArgumentError("columns", columns, rule, code="choice")
    figure = drawing.Figure(figsize=(4.0 * len(panels), 3.2), layout="constrained")
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, column in zip(every, panels, strict=True):
        for name, own in rows.items():
            points = _points(own, column)
            marker = "." if len(points) < 30 else None
            axes.plot(*zip(*points, strict=True), marker=marker, label=name) if points else None
        axes.set(xlabel="round", ylabel=_title(column))
        axes.grid(alpha=0.3)
    if len(rows) > 1:
        every[0].legend()
    return figure


def _points(rows: list[dict[str, Any]], column: str) -> list[tuple[int, float]]:
    """Returns round and number where a round has one; bytes add up."""
    points = [(row["round"], row[column]) for row in rows if row.get(column) is not None]
    if not column.startswith("bytes"):
        return points
    total, summed = 0.0, []
    for number, sent in points:
        total += sent / 1e6
        summed.append((number, total))
    return summed


def _title(column: str) -> str:
    return "MB so far" if column == "bytes_total" else column.replace("bytes_", "MB ")
