"""The commands that train: all parties on this machine, or one of them."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from extensions.cli import console, data
from extensions.cli.budget import BudgetFile
from extensions.cli.files import options_of
from extensions.cli.options import Ending, Rerun, check_options
from extensions.data.datasets import (
    Split,
    classes_in,
    common_facts,
    has_labels,
    in_memory,
    is_table,
    read_party_file,
)
from extensions.data.origin import FeatureExtraction, Origin, own_records
from extensions.errors import ArgumentError
from extensions.layers.spec import ADDITIVE
from extensions.options import Options
from extensions.options.leaves import Typed, shows
from extensions.public import Public
from extensions.runs.budget.run_ledgers import ledgers_of, spent_in
from extensions.runs.config import TrainConfig
from extensions.runs.config.additive import COARSE, bins_told
from extensions.runs.config.schedule import (
    DERIVED,
    Asked,
    Schedule,
    config_of,
    found_of,
    inputs_for,
)
from extensions.runs.config.train import Failure
from extensions.runs.hosts import Backend, Progress, find_for, remote_owners, warm_up
from extensions.runs.local_data import check_classes
from extensions.runs.manifest import differences
from extensions.runs.options import Meeting, RunOptions
from extensions.runs.outputs import expected_precision
from extensions.runs.summaries.forecast import ForecastDisplay

_OF_ALL_PARTIES = ("timeout", "players", "federation", "key", "ledgers", "transport")


@dataclass(frozen=True, kw_only=True)
class PartyOptions:
    """One party among the others of its run.

    Attributes:
        meeting: where it meets them.
        world_size: number of parties.
        records: this party's .npz, .csv or .parquet file.
        data: name of the data, for the report.
        features: as in `pea train`, extracted here; by default the file holds features.
        classes: number of classes, if no names, schema or file says it.
        budget: ledger of the records (`pea budget`), a file or a folder; by default beside them.
            With none, no ledger is kept.
    """

    meeting: Meeting
    world_size: int
    records: Path
    data: str = "own records"
    features: str | None = None
    classes: int | None = None
    budget: Path | None = None


@shows(
    *("data", "data-for-party", "parties", "backend", "provider", "model", "loss"),
    *("epsilon", "delta", "no-dp", "open", "features", "save", "json", "verbose"),
    example="pea train --data digits --epsilon 2 --delta 1e-5 --save model",
)
def train(
    run: Annotated[Asked, Options("Run", without=(*DERIVED, "classes"))],
    schedule: Annotated[Schedule, Options("Run")],
    records: Annotated[Origin, Options("Records")],
    extraction: Annotated[FeatureExtraction, Options("Features")],
    options: Annotated[RunOptions, Options("Execution", without=("ledgers",))],
    ending: Rerun,
    typed: Typed,
    budget: BudgetFile = None,
) -> None:
    """Train one model on the records of several parties, all on this machine or with --players."""
    check_options(options)
    if options.players is not None:
        _check_nothing_of(records, extraction, budget)
    extraction = inputs_for(run.model, extraction)
    config = config_of(run, schedule, extraction, data=records.title, seed_data=records.seed)
    engine = find_for(config, options)
    with remote_owners(engine, options) as far:
        if far is not None:
            settings = found_of(config, schedule, **{**far.settings, "data": "own records"})
            resolve = settings.resolving(sum(part.records for part in far.public))
            done = _trained(engine, resolve, far.public, far.train, options, typed)
            console.finish(done, ending, options.save)
            return
    by_columns = config.split == "columns"
    raw = records.read(config.parties, by_columns=by_columns)
    linear = config.model == TrainConfig.model
    named, note = extraction.chosen(raw[0].train_x, linear=linear, hidden=config.hidden)
    labelled = next(own for own in raw if has_labels(own.train_y))
    known = {"features": named.features or config.features, **_settings_of(labelled, config)}
    settings = found_of(config, schedule, **known)
    if extraction.features is None:
        settings = settings.derived(chosen=(*settings.chosen, "features"))
    sizes = [own.drawn for own in raw]
    resolve = settings.resolving(config.records_of(sizes))
    ledgers = ledgers_of(records.own_files(config.parties), config.parties, budget)
    options = replace(options, ledgers=ledgers)
    with ExitStack() as stack:
        stack.enter_context(warm_up(engine, settings, options))
        resolve(lambda usual: 0.0)  # what no noise can meet is told before features are taken
        if note is not None:
            console.notice(note)
        with console.extracting() as extracted:
            parts = named.extract(raw, extracted)
        files = stack.enter_context(in_memory(parts))
        public = [part.public for part in parts]
        rows = [len(part.train_x) for part in parts]
        check_classes(settings, parts, of_all=True)
        console.classes(classes_in(labelled.recipe))
        for rank, own in enumerate(raw):
            console.clipped(own.clipped, f" at party {rank}", own.left_out)
        del raw, parts

        def train_here(config: TrainConfig, progress: Progress) -> dict[str, Any]:
            return engine.train(config, files, progress, options)

        done = _trained(engine, resolve, public, train_here, options, typed)
    told = {"training_rows": rows} if rows != sizes else {}
    console.finish({**done, **told, **spent_in(ledgers)}, ending, options.save)


def _trained(
    engine: Backend,
    resolve: Callable[[Failure], TrainConfig],
    public: Sequence[Public],
    train: Callable[[TrainConfig, Progress], dict[str, Any]],
    options: RunOptions,
    typed: Typed,
) -> dict[str, Any]:
    """Returns the report of a run, after all that is to be said of it before.

    Args:
        engine: which trains.
        resolve: finds the settings of the run with their noise.
        public: what is public of each owner's records.
        train: does it.
        options: of the run.
        typed: what was given in any way.
    """
    config = resolve(lambda usual: engine.noise_failure(usual, public[0].features))
    console.notices(config, engine.notices(config))
    number = config.records_of([part.records for part in public])
    held_out = config.records_of([part.held_out for part in public])
    console.expected(_model_of(config, number))
    console.expected(expected_precision(config, held_out))
    for difference in differences(typed.report.get("manifest"), config):
        console.notice(difference)
    far = options.players is not None
    with console.resume_hint(options.kept, at_players=far), console.progress(config) as show:
        done = train(config, ForecastDisplay(config, show, console.expected))
    return {**done, **options_of(typed)}


def _model_of(config: TrainConfig, records: int) -> str | None:
    """Returns what is said of a table's model, before anything is spent; None for nothing."""
    if config.model not in (ADDITIVE, TrainConfig.model):
        return None
    if (bins := bins_told(config, records)) is None:
        return None
    counts = f"noise leaves {bins:.3g} bins a column"
    if config.model == ADDITIVE:
        doubt = "; a linear model (--model logistic) learns more of so few" if bins < COARSE else ""
        return f"an additive model, {config.cells} cells: {counts}{doubt}."
    if config.hidden and bins >= COARSE:
        return f"a linear model. With --open each-step, an additive model: {counts}."
    return f"a linear model: {counts}." if "model" in config.chosen else None


def _settings_of(own: Split, config: TrainConfig) -> dict[str, Any]:
    """Returns what settings follow from an owner's records: of columns what all have alike."""
    found = own.settings
    if config.split == "columns":
        found["facts"] = common_facts(found["facts"] | own.recipe)
    return found


def _check_nothing_of(records: Origin, extraction: FeatureExtraction, budget: Path | None) -> None:
    """Checks that nothing is said of records that this command does not read.

    Raises:
        ArgumentError: something is.
    """
    said = {**vars(records), **vars(extraction), "budget": budget}
    usual = {**vars(Origin()), **vars(FeatureExtraction()), "budget": None}
    for name, value in said.items():
        if value != usual[name]:
            shown = value if isinstance(value, bool | int | float | str) else str(value)
            rule, hint = "with {players}", "Players read their records: give it to `pea players`."
            raise ArgumentError(name, shown, rule, hint, code="conflict")


def party(
    seat: Annotated[PartyOptions, Options("Party")],
    run: Annotated[
        Asked,
        Options("Run", without=(*DERIVED, "classes", "backend", "parties", "insecure_seed")),
    ],
    schedule: Annotated[Schedule, Options("Run")],
    table: Annotated[Origin, Options("Records", without=data.NOT_OF_A_TABLE)],
    extraction: Annotated[FeatureExtraction, Options("Features", without=("features",))],
    options: Annotated[RunOptions, Options("Execution", without=_OF_ALL_PARTIES)],
    ending: Ending,
) -> None:
    """Run one party of a training run; start the others, on their hosts, with the same options."""
    check_options(options)
    if seat.features is None and extraction.weights is not None:
        raise ArgumentError("weights", str(extraction.weights), "{features}", code="needs")
    extraction = replace(extraction, features=seat.features or TrainConfig.features)
    extraction = inputs_for(run.model, extraction)
    known = {"parties": seat.world_size, "data": seat.data, "seed_data": table.seed}
    config = config_of(run, schedule, extraction, **known)
    engine = find_for(config, options)
    engine.check_party(config, seat.meeting, options)
    by_columns = config.split == "columns"
    own = own_records(seat.records, table, seat.classes, by_columns=by_columns)
    features = seat.features and extraction.features
    features = features or own.recipe.get("features", TrainConfig.features)
    known = {**_settings_of(own, config), "features": features}
    config = found_of(config, schedule, **known)
    assumed = config.resolved(records=config.records_of([own.drawn] * config.parties))
    records = seat.records
    options = replace(options, ledgers=ledgers_of([records], 1, seat.budget))
    with ExitStack() as stack:
        if seat.features is not None or is_table(records):
            own = data.features_of(own, extraction)
            (records,) = stack.enter_context(in_memory([own]))
        else:
            own = read_party_file(records)
        check_classes(config, [own])
        console.notices(config, engine.notices(config))
        number, held_out = (
            config.records_of([size] * config.parties) for size in (own.drawn, len(own.test_x))
        )
        console.expected(_model_of(assumed, number), "as many as here: ")
        console.expected(expected_precision(config, held_out), "as many as here: ")
        del own
        with console.resume_hint(options.kept), console.progress(assumed) as show:
            told = ForecastDisplay(assumed, show, console.expected)
            done = engine.train_party(config, records, seat.meeting, told, options)
    console.finish({**done, **spent_in(options.ledgers)}, ending, options.save)
