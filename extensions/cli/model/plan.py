"""The command that says what a run will take, before there are records or other parties."""

from dataclasses import dataclass
from typing import Annotated, Any

from rich.table import Table

from extensions.cli import console
from extensions.cli.options import SETTLED, Report, Schedule, config_of
from extensions.cli.parameters import Options
from extensions.errors import ArgumentError
from extensions.owners.origin import FeatureExtraction
from extensions.runs.budget.forecast import forecast
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find_for, settled
from extensions.runs.hosts import plan as plan_step

MOST_COLUMNS = 1 << 20
_COLUMNS = ("inputs", "outputs", "positions", "norms")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Public facts about records that need not exist.

    Attributes:
        records: number of training records of each party, such as 800,1000,700; one number: of all.
        columns: features of a record; of images all their values, such as 784.
        classes: number of classes.
        max_feature_norm: public bound of the norm of a record's features.
    """

    records: str
    columns: int
    classes: int = 10
    max_feature_norm: float = 1.0

    def of(self, parties: int) -> list[int]:
        """Returns the number of records of each party.

        Raises:
            ArgumentError: they are no numbers.
        """
        words = self.records.split(",")
        if not all(word.strip().isdecimal() and len(word) < 12 for word in words):
            allowed = "a number for each party, such as 800,1000,700, or one for all"
            raise ArgumentError("records", self.records, allowed)
        sizes = [int(word) for word in words]
        return sizes * parties if len(sizes) == 1 else sizes


def plan(
    sizes: Annotated[Sizes, Options("Records")],
    run: Annotated[TrainConfig, Options("Run", without=(*SETTLED, "classes"))],
    schedule: Annotated[Schedule, Options("Run")],
    json_out: Report = None,
) -> None:
    """Say what training will take: rounds, bytes and memory of a step, and its bounds."""
    if not 1 <= sizes.columns <= MOST_COLUMNS:
        raise ArgumentError("columns", sizes.columns, f"in 1..{MOST_COLUMNS}")
    extraction = FeatureExtraction(max_feature_norm=sizes.max_feature_norm)
    config = config_of(run, schedule, extraction, classes=sizes.classes)
    engine, records = find_for(config), sizes.of(config.parties)
    config = settled(config, sizes.columns, sum(records))
    step = plan_step(engine, config, records, sizes.columns)
    found = forecast(config, records, sizes.columns, step)
    console.write(found, json_out)
    _show(found)


def _show(found: dict[str, Any]) -> None:
    table = Table("layer", *_COLUMNS, box=None)
    for i, layer in enumerate(found["layers"]):
        table.add_row(str(i), *(str(layer[name]) for name in _COLUMNS))
    console.out.print(table)
    step, whole = found["step"], found["run"]
    rows = "+".join(map(str, found["rows"]))
    lines = [
        f"{found['parameters']} weights and biases; {rows} rows a step in {found['pieces']} pieces",
        f"a step: {step['rounds']} rounds, {_bytes(step['bytes'])} of a party, "
        f"{_bytes(step['memory'])} of memory",
        f"{found['steps']} steps: {whole['rounds']} rounds, {_bytes(whole['bytes'])} of a party",
    ]
    for line in lines:
        console.out.print(line, highlight=False)


def _bytes(count: int | None) -> str:
    return "unknown" if count is None else f"{count / 1e6:,.1f} MB"
