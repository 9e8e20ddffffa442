"""The command that says what a run will take, before there are records or other parties."""

from typing import Annotated, Any

from rich.table import Table

from extensions.cli import console
from extensions.cli.options import Report
from extensions.data.origin import FeatureExtraction
from extensions.errors import ArgumentError
from extensions.options import Option, Options
from extensions.rules import one_of
from extensions.runs.budget.forecast import Sizes, forecast, foreseen
from extensions.runs.config.additive import COARSE
from extensions.runs.config.run_time import NETWORKS, forecast_run
from extensions.runs.config.schedule import DERIVED, Asked, Schedule, config_of
from extensions.runs.hosts import default_speed, find_for
from extensions.runs.summaries.forecast import epsilon_of, line_of, running, size

MOST_COLUMNS = 1 << 20
HELD_OUT = 4
"""Training records for each that is held out, as data sets are split."""
_COLUMNS = ("inputs", "outputs", "positions", "norms")


def plan(
    sizes: Annotated[Sizes, Options("Records")],
    run: Annotated[Asked, Options("Run", without=(*DERIVED, "classes"))],
    schedule: Annotated[Schedule, Options("Run")],
    network: Annotated[
        str | None,
        Option(help=f"Network between the parties: {', '.join(NETWORKS)}; by default nothing."),
        one_of(NETWORKS),
    ] = None,
    json_out: Report = None,
) -> None:
    """Estimate what a training takes: time, rounds, bytes and memory, with bounds."""
    columns, known = sizes.known()
    if not 1 <= columns <= MOST_COLUMNS:
        raise ArgumentError("columns", columns, f"in 1..{MOST_COLUMNS}")
    extraction = FeatureExtraction(max_feature_norm=sizes.max_feature_norm)
    config = config_of(run, schedule, extraction, **known)
    engine, of_each = find_for(config), sizes.of(config.parties)
    began = running()
    config, made, records, step = foreseen(engine, config, of_each, columns)
    speed = default_speed(engine, running() - began)
    if step.rounds:
        speed = NETWORKS[network or "loopback"].slower(speed, config.parties)
    found = forecast(config, made, records, step)
    run_ = forecast_run(config, records, sum(records.sizes) // HELD_OUT, step, speed)
    found["run"] = {"rounds": run_.rounds, "bytes": run_.bytes, "seconds": running() + run_.seconds}
    console.write(found, json_out)
    _show(found)
    line = line_of(run_._asdict(), found["run"]["seconds"], epsilon_of(config))
    console.out.print(f"{line}; {network or 'all on this machine'}", highlight=False)


def _show(found: dict[str, Any]) -> None:
    if "layers" not in found:
        _show_additive(found)
        return
    table = Table("layer", *_COLUMNS, box=None)
    for i, layer in enumerate(found["layers"]):
        table.add_row(str(i), *(str(layer[name]) for name in _COLUMNS))
    console.out.print(table)
    step = found["step"]
    rows = "+".join(map(str, found["rows"]))
    lines = [
        f"{found['parameters']} weights and biases; {rows} rows a step in {found['pieces']} pieces",
        f"a step: {step['rounds']} rounds, {_bytes(step['bytes'])} of a party, "
        f"{_bytes(step['memory'])} of memory",
    ]
    for line in lines:
        console.out.print(line, highlight=False)


def _show_additive(found: dict[str, Any]) -> None:
    told = f"{found['bins_told_from_noise']:.3g} bins of a column stand out from the noise"
    if found["bins_told_from_noise"] < COARSE:
        told += "; a linear model would learn more"
    counts = f"{found['columns']} columns in {found['cells']} cells, counted once"
    step = f"a step opens at most {found['numbers_opened']} numbers: {size(found['step']['bytes'])}"
    for line in (counts, told, f"{step} for each party"):
        console.out.print(line, highlight=False)


def _bytes(count: int | None) -> str:
    return "unknown" if count is None else f"{count / 1e6:,.1f} MB"
