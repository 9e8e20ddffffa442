"""How a kind of result is described."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ROOTS, STEP, NOISE = "Inverse square roots", "One step of DPSGD", "Noise"
TRAINING, ACCURACY, ACCOUNTING = "Whole runs", "Accuracy", "Accounting"
FEDERATED, OTHERS = "Federated learning", "Other results"
PARTS = (ROOTS, STEP, NOISE, TRAINING, ACCURACY, FEDERATED, ACCOUNTING, OTHERS)

NAMES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "crypten": "CrypTen",
    "imdb": "IMDb",
    "lan": "LAN",
    "mnist": "MNIST",
    "tfe": "ABY3",
    "wan": "WAN",
}
"""What titles call the parts of names."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure drawn from a result's rows: a panel for each column, a line for each row.

    Attributes:
        labels: the columns that name a row.
        values: the columns that are drawn, each with the column of its standard deviation or "".
        logarithmic: the columns that need a logarithmic axis.
    """

    labels: tuple[str, ...]
    values: Mapping[str, str]
    logarithmic: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The results whose whole name, without a network's profile, matches a pattern.

    Attributes:
        pattern: of names; its groups may stand in title and command, as may settings in the latter.
        part: the part of the report that it belongs to.
        title: the heading.
        shows: one sentence on what the result shows.
        command: that makes it again.
        figures: what a figure shows, by what its file's name adds to the result's.
        chart: drawn by the report; None where the benchmark draws its figures itself, or has none.
    """

    pattern: str
    part: str
    title: str
    shows: str
    command: str
    figures: Mapping[str, str] = field(default_factory=dict)
    chart: Chart | None = None
