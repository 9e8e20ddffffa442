"""The `pea` command."""

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from extensions.cli import console, data, model, shares
from extensions.cli.budget import BudgetFile, ledgers_of
from extensions.cli.budget import budget as show_budget
from extensions.cli.checkpoints import resume_hint
from extensions.cli.config_file import ConfigFile
from extensions.cli.installed import Commands
from extensions.cli.options import SETTLED, Report, Schedule, check_options, config_of
from extensions.cli.parameters import Options, with_options
from extensions.errors import LostError, PeaError
from extensions.owners.data import is_table, write_parts, write_records
from extensions.owners.origin import FeatureExtraction, Origin, own_records
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find_for
from extensions.runs.options import Meeting, RunOptions

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Train models on several parties' private data.",
)


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One party among the others of its run.

    Attributes:
        meeting: where it meets them.
        world_size: number of parties.
        records: this party's .npz, .csv or .parquet file.
        data: name of the data, for the report.
        features: as in `pea train`, extracted here; by default the file holds features.
        classes: number of classes, where neither names nor a schema nor the file say it.
        budget: ledger of the records (`pea budget`), a file or a folder; by default beside them;
            none: keep none.
    """

    meeting: Meeting
    world_size: int
    records: Path
    data: str = "own records"
    features: str | None = None
    classes: int | None = None
    budget: Path | None = None


@app.command()
@with_options
def train(
    run: Annotated[TrainConfig, Options("Run", without=(*SETTLED, "classes"))],
    schedule: Annotated[Schedule, Options("Run")],
    records: Annotated[Origin, Options("Records")],
    extraction: Annotated[FeatureExtraction, Options("Features")],
    options: Annotated[RunOptions, Options("Execution", without=("ledgers",))],
    budget: BudgetFile = None,
    report: Report = None,
    config_file: ConfigFile = None,
) -> None:
    """Train one model on the records of several parties, all on this machine."""
    check_options(options)
    config = config_of(
        run,
        schedule,
        extraction,
        schema=records.schema is not None,
        data=records.title,
        seed_data=records.seed,
    )
    engine = find_for(config)
    sources = records.read(config.parties)
    settings = replace(config, **sources[0].settings)
    config = settings.resolved()
    console.prepare(report, options.save)
    console.notices(config, engine.notices(config))
    console.classes(sources[0].names)
    for rank, source in enumerate(sources):
        console.clipped(source.clipped, f" at party {rank}", source.left_out)
    ledgers = ledgers_of(records.own_files(config.parties), config.parties, budget)
    options = replace(options, ledgers=ledgers)
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        with console.extracting() as extracted:
            parts = extraction.extract([source.stated for source in sources], extracted)
        files = write_parts(parts, Path(folder))
        columns = parts[0].train_x.shape[1]
        config = settings.resolved(engine.noise_failure(settings, columns))
        del sources, parts
        with resume_hint(options.kept), console.progress(config) as show:
            done = engine.train(config, files, show, options)
    console.finish(done, report, options.save)


@app.command()
@with_options
def party(
    seat: Annotated[Seat, Options("Party")],
    run: Annotated[
        TrainConfig,
        Options("Run", without=(*SETTLED, "classes", "backend", "parties", "insecure_seed")),
    ],
    schedule: Annotated[Schedule, Options("Run")],
    table: Annotated[Origin, Options("Records", without=data.NOT_OF_A_TABLE)],
    extraction: Annotated[FeatureExtraction, Options("Features", without=("features",))],
    options: Annotated[RunOptions, Options("Execution", without=("timeout", "players", "ledgers"))],
    report: Report = None,
    config_file: ConfigFile = None,
) -> None:
    """Run one party of a training run; start the others, on their hosts, with the same options."""
    check_options(options)
    source = own_records(seat.records, table, seat.classes)
    told = seat.features or source.facts.get("features", TrainConfig.features)
    extraction = replace(extraction, features=told)
    config = config_of(
        run,
        schedule,
        extraction,
        schema=table.schema is not None,
        parties=seat.world_size,
        data=seat.data,
        seed_data=table.seed,
        **source.settings,
    ).resolved()
    engine = find_for(config)
    console.prepare(report, options.save)
    console.notices(config, engine.notices(config))
    records = seat.records
    options = replace(options, ledgers=ledgers_of([records], 1, seat.budget))
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        if seat.features is not None or is_table(records):
            own = data.features_of(source, extraction)
            records = write_records(own, Path(folder) / "features.npz", config.classes)
        with resume_hint(options.kept), console.progress(config) as show:
            done = engine.train_party(config, records, seat.meeting, show, options)
    console.finish(done, report, options.save)


app.command(name="budget")(show_budget)
app.command()(with_options(data.split))
app.command(name="features")(with_options(data.extract))
app.command()(data.schema)
app.command()(with_options(model.predict))
app.command()(model.export)
app.command()(with_options(shares.evaluate))
app.command(name="open")(with_options(shares.open_model))


def main() -> None:
    """Runs the command; an error of the project is one line on standard error and status 1.

    Only where a process was lost do further lines say what it last printed.
    """
    try:
        app()
    except (PeaError, OSError) as error:
        print(f"pea: {error}", file=sys.stderr)
        if isinstance(error, LostError):
            for note in getattr(error, "__notes__", []):
                print(note, file=sys.stderr)
        sys.exit(1)
