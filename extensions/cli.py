"""The `pea` command."""

import importlib
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from extensions import cli_data, cli_init, console
from extensions.backends import find
from extensions.cli_data import columns_of, names_of, taking_of
from extensions.config import TrainConfig
from extensions.config_file import ConfigFile
from extensions.data import Sizes, is_table, write_parts
from extensions.errors import (
    ArgumentError,
    DealerLostError,
    PartyLostError,
    PeaError,
    ServersLostError,
    ThirdPartyLostError,
)
from extensions.owners import Origin, sizes_of, write_features
from extensions.providers import Provider

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Train models on several parties' private data.",
)

Epsilon = Annotated[float | None, typer.Option(help="Target epsilon; needs --delta.")]
Delta = Annotated[float | None, typer.Option(help="Delta of the guarantee, in (0, 1).")]
Noise = Annotated[float | None, typer.Option(help="sigma / C, instead of --epsilon.")]
Calibration = Annotated[str, typer.Option(help="How epsilon becomes noise: pld, rdp or paper.")]
Steps = Annotated[int | None, typer.Option(help="Number of updates (default 120).")]
Epochs = Annotated[float | None, typer.Option(help="Instead of --steps: steps = epochs / rate.")]
Rate = Annotated[float, typer.Option(help="Poisson sampling rate of each record, in (0, 1].")]
Lr = Annotated[
    float | None,
    typer.Option(help="Learning rate of the averaged noisy sum (default 10, mlp: 1)."),
]
GradNorm = Annotated[float, typer.Option(help="C, the bound of each example's gradient.")]
Model = Annotated[str, typer.Option(help="logistic, or mlp:H with H hidden units.")]
Bits = Annotated[int, typer.Option(help="Fractional bits of the ring.")]
Reveal = Annotated[str, typer.Option(help="mpc: open the accuracy; opened: open the model.")]
NoDp = Annotated[bool, typer.Option("--no-dp", help="No clipping and no noise: NOT private.")]
Fixed = Annotated[
    int | None,
    typer.Option(
        help="Draw sampling and noise from this public seed: for comparison, NOT private."
    ),
]
Dealing = Annotated[
    Provider,
    typer.Option(
        help="Who deals: dealer or ttp (processes without data), or tfp (party 0, trusted)."
    ),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")]
Save = Annotated[
    Path | None,
    typer.Option(help="Folder for the model: model.npz if opened, else each party's shares."),
]


@app.command()
def train(
    backend: Annotated[
        str, typer.Option(help="crypten, tfe (ABY3), or clear (plaintext comparison).")
    ] = "crypten",
    parties: Annotated[int, typer.Option(help="Number of parties, one process each.")] = 3,
    provider: Dealing = TrainConfig.provider,
    data: cli_data.Data = None,
    data_dir: cli_data.DataDir = None,
    data_for_party: cli_data.DataForParty = None,
    download: cli_data.Download = False,
    label: cli_data.Label = None,
    text: cli_data.Text = None,
    class_names: cli_data.ClassNames = None,
    partition: cli_data.Partition = "iid",
    features: cli_data.Features = "raw",
    weights: cli_data.Weights = None,
    no_feature_cache: cli_data.NoFeatureCache = False,
    max_feature_norm: cli_data.FeatureNorm = 1.0,
    epsilon: Epsilon = None,
    delta: Delta = None,
    noise_multiplier: Noise = None,
    calibration: Calibration = "pld",
    init: cli_init.Init = None,
    epsilon_init: cli_init.Epsilon = None,
    delta_init: cli_init.Delta = None,
    init_steps: cli_init.Steps = None,
    init_lr: cli_init.Lr = None,
    steps: Steps = None,
    epochs: Epochs = None,
    lr: Lr = None,
    max_grad_norm: GradNorm = 1.0,
    sample_rate: Rate = 0.1,
    seed_data: cli_data.SeedData = 0,
    model: Model = "logistic",
    frac_bits: Bits = 20,
    evaluate: Reveal = "mpc",
    no_dp: NoDp = False,
    insecure_fixed_randomness: Fixed = None,
    material: Annotated[
        Path | None, typer.Option(help="Folder of `pea prepare`, instead of a running dealer.")
    ] = None,
    players: Annotated[
        Path | None,
        typer.Option(help="With --backend tfe: file of players that `pea players` runs."),
    ] = None,
    json_out: Json = None,
    save: Save = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds after which the run is given up.")
    ] = 3600.0,
    config_file: ConfigFile = None,
) -> None:
    """Train one model on the records of several parties, all on this machine."""
    origin = Origin(
        data=data,
        data_dir=data_dir,
        own=data_for_party or (),
        columns=columns_of(label, text),
        names=names_of(class_names),
        partition=partition,
        seed=seed_data,
        download=download,
    )
    config = _config(
        backend=backend,
        parties=parties,
        provider=provider,
        data=origin.title,
        features=features,
        max_feature_norm=max_feature_norm,
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        calibration=calibration,
        **cli_init.settings(init, epsilon_init, delta_init, init_steps, init_lr),
        steps=_steps(steps, epochs, sample_rate),
        lr=_learning_rate(lr, model),
        max_grad_norm=max_grad_norm,
        sample_rate=sample_rate,
        seed_data=seed_data,
        model=model,
        frac_bits=frac_bits,
        evaluate=evaluate,
        private=not no_dp,
        insecure_seed=insecure_fixed_randomness,
    )
    engine = find(config.backend)
    taking = taking_of(features, weights, max_feature_norm, no_feature_cache)
    sources = origin.read(parties)
    settings = replace(config, classes=sources[0].classes)
    config = settings.resolved()
    console.prepare(json_out, save)
    console.notices(config, engine.NOTICE)
    console.classes(sources[0].names)
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        with console.extracting() as taken:
            parts = taking.take([source.split for source in sources], taken)
        files = write_parts(parts, Path(folder))
        columns = parts[0].train_x.shape[1]
        config = settings.resolved(engine.failure_probability(settings, columns))
        del sources, parts
        with console.progress(config) as show:
            report = engine.train(
                config,
                files,
                show,
                save=save,
                timeout=timeout,
                material=material,
                players=players,
            )
    console.finish(report, json_out, save)


@app.command()
def party(
    rank: Annotated[int, typer.Option(help="This party's rank, 0..N-1.")],
    world_size: Annotated[int, typer.Option(help="Number of parties N.")],
    rendezvous: Annotated[str, typer.Option(help="tcp://HOST:PORT of party 0.")],
    records: Annotated[Path, typer.Option(help="This party's .npz, .csv or .parquet file.")],
    provider: Dealing = TrainConfig.provider,
    dealer: Annotated[
        str | None, typer.Option(help="HOST:PORT of pea dealer, for --provider dealer.")
    ] = None,
    material: Annotated[
        Path | None, typer.Option(help="This party's file of `pea prepare`, instead of --dealer.")
    ] = None,
    data: Annotated[str, typer.Option(help="Name of the data, for the report.")] = "own records",
    features: Annotated[
        str | None,
        typer.Option(help="As in `pea train`, taken here; by default the file holds features."),
    ] = None,
    weights: cli_data.Weights = None,
    no_feature_cache: cli_data.NoFeatureCache = False,
    label: cli_data.Label = None,
    text: cli_data.Text = None,
    class_names: cli_data.ClassNames = None,
    seed_data: cli_data.SeedData = 0,
    classes: cli_data.Classes = TrainConfig.classes,
    max_feature_norm: cli_data.FeatureNorm = 1.0,
    epsilon: Epsilon = None,
    delta: Delta = None,
    noise_multiplier: Noise = None,
    calibration: Calibration = "pld",
    init: cli_init.Init = None,
    epsilon_init: cli_init.Epsilon = None,
    delta_init: cli_init.Delta = None,
    init_steps: cli_init.Steps = None,
    init_lr: cli_init.Lr = None,
    steps: Steps = None,
    epochs: Epochs = None,
    lr: Lr = None,
    max_grad_norm: GradNorm = 1.0,
    sample_rate: Rate = 0.1,
    model: Model = "logistic",
    frac_bits: Bits = 20,
    evaluate: Reveal = "mpc",
    no_dp: NoDp = False,
    json_out: Json = None,
    save: Save = None,
    join_timeout: Annotated[float, typer.Option(help="Seconds to wait for all to join.")] = 300.0,
    config_file: ConfigFile = None,
) -> None:
    """Run one party of a training run; start the others, on their hosts, with the same options."""
    engine = find(TrainConfig.backend)
    config = _config(
        parties=world_size,
        provider=provider,
        data=data,
        features=features or TrainConfig.features,
        classes=len(names_of(class_names) or ()) or classes,
        max_feature_norm=max_feature_norm,
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        calibration=calibration,
        **cli_init.settings(init, epsilon_init, delta_init, init_steps, init_lr),
        steps=_steps(steps, epochs, sample_rate),
        lr=_learning_rate(lr, model),
        max_grad_norm=max_grad_norm,
        sample_rate=sample_rate,
        model=model,
        frac_bits=frac_bits,
        evaluate=evaluate,
        private=not no_dp,
    ).resolved()
    console.prepare(json_out, save)
    console.notices(config, engine.NOTICE)
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        if features is not None or is_table(records):
            chosen = features or TrainConfig.features
            taking = taking_of(chosen, weights, max_feature_norm, no_feature_cache)
            taken = cli_data.read_own(
                records, label, text, class_names, config.classes, seed_data, taking
            )
            records = write_features(taken, Path(folder) / "features.npz")
        with console.progress(config) as show:
            report = engine.train_party(
                config,
                records,
                rank=rank,
                rendezvous=rendezvous,
                progress=show,
                save=save,
                join_timeout=join_timeout,
                dealer=dealer,
                material=material,
            )
    console.finish(report, json_out, save)


@app.command(name="dealer")
def serve_dealer(
    bind: Annotated[str, typer.Option(help="HOST:PORT to listen at.")],
    parties: Annotated[int, typer.Option(help="Number of parties.")],
) -> None:
    """Deal for one run of `pea party`: on a host of somebody who owns no data and sides with none.

    It learns shapes and counts, ends with the run, and ends with status 1 if a party is lost.
    """
    dealt = find(TrainConfig.backend).deal(bind, parties)
    typer.echo(f"dealt {dealt['tuples']} tuples, {dealt['bytes']} bytes of corrections")


@app.command()
def prepare(
    out: Annotated[Path, typer.Option(help="Folder for party-0.material, party-1.material, ...")],
    parties: Annotated[int, typer.Option(help="Number of parties.")] = 3,
    data: cli_data.Data = None,
    data_dir: cli_data.DataDir = None,
    features: cli_data.Features = "raw",
    weights: cli_data.Weights = None,
    records: Annotated[
        str | None,
        typer.Option(help="Instead of --data, each party's training records: 900,800,850."),
    ] = None,
    held_out: Annotated[
        str | None, typer.Option(help="With --records: each party's held-out records.")
    ] = None,
    columns: Annotated[int | None, typer.Option(help="With --records: features.")] = None,
    classes: cli_data.Classes = TrainConfig.classes,
    max_feature_norm: cli_data.FeatureNorm = 1.0,
    epsilon: Epsilon = None,
    delta: Delta = None,
    noise_multiplier: Noise = None,
    calibration: Calibration = "pld",
    init: cli_init.Init = None,
    epsilon_init: cli_init.Epsilon = None,
    delta_init: cli_init.Delta = None,
    init_steps: cli_init.Steps = None,
    init_lr: cli_init.Lr = None,
    steps: Steps = None,
    epochs: Epochs = None,
    lr: Lr = None,
    max_grad_norm: GradNorm = 1.0,
    sample_rate: Rate = 0.1,
    model: Model = "logistic",
    frac_bits: Bits = 20,
    no_dp: NoDp = False,
) -> None:
    """Deal for one run beforehand: on a host of somebody who owns no data and sides with none.

    Each party gets its own file, in private, and gives the same options as here. A file is of use
    once. It is known from public sizes alone which tuples the run needs.
    """
    config = _config(
        parties=parties,
        classes=classes,
        max_feature_norm=max_feature_norm,
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        calibration=calibration,
        **cli_init.settings(init, epsilon_init, delta_init, init_steps, init_lr),
        steps=_steps(steps, epochs, sample_rate),
        lr=_learning_rate(lr, model),
        max_grad_norm=max_grad_norm,
        sample_rate=sample_rate,
        model=model,
        frac_bits=frac_bits,
        private=not no_dp,
    ).resolved()
    if records is None:
        origin = Origin(data=data, data_dir=data_dir)
        sizes = sizes_of(origin, taking_of(features, weights, max_feature_norm, True), parties)
    else:
        sizes = Sizes(
            train=_numbers("records", records),
            test=_numbers("held_out", held_out),
            features=columns or 0,
        )
    with console.counted("tuple") as show:
        paths = find(config.backend).prepare(config, sizes, out, show)
    for path in paths:
        typer.echo(f"{path} {path.stat().st_size} bytes")


@app.command()
def players(
    config: Annotated[Path, typer.Option(help="JSON file of names and HOST:PORT.")],
    player: Annotated[
        str | None, typer.Option(help="The one player of this host; all of them if left out.")
    ] = None,
) -> None:
    """Run the players of a TF Encrypted session; its script reaches them by the same file.

    They end with this command, and it ends with status 1 if one of them ends.
    """
    importlib.import_module("tfe_ext.launch").serve(config, player, tell=typer.echo)


app.command()(cli_data.split)
app.command(name="features")(cli_data.take)


def _numbers(name: str, text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in (text or "").split(","))
    except ValueError:
        raise ArgumentError(name, text, "whole numbers, one a party, such as 900,800,850") from None


def _steps(steps: int | None, epochs: float | None, sample_rate: float) -> int:
    if steps is not None and epochs is not None:
        raise ArgumentError("steps, epochs", (steps, epochs), "at most one of them given")
    if epochs is not None:
        if not 0.0 < epochs < 1e6 or not 0.0 < sample_rate <= 1.0:
            raise ArgumentError("epochs", epochs, "positive, with a sample rate in (0, 1]")
        return max(1, round(epochs / sample_rate))
    return TrainConfig.steps if steps is None else steps


def _learning_rate(lr: float | None, model: str) -> float:
    if lr is not None:
        return lr
    return TrainConfig.lr if model == "logistic" else 1.0


def _config(**settings: Any) -> TrainConfig:
    return TrainConfig(**settings)


_LOST = (PartyLostError, DealerLostError, ThirdPartyLostError, ServersLostError)


def main() -> None:
    """Runs the command; an error of the project is one line on standard error and status 1.

    Only where a process was lost do further lines say what it last printed.
    """
    try:
        app()
    except (PeaError, OSError) as error:
        print(f"pea: {error}", file=sys.stderr)
        if isinstance(error, _LOST):
            for note in getattr(error, "__notes__", []):
                print(note, file=sys.stderr)
        sys.exit(1)
