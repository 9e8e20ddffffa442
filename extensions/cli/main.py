"""The `pea` command."""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from extensions.cli import checkpoints as cli_checkpoints
from extensions.cli import console, options
from extensions.cli import data as cli_data
from extensions.cli import dealing as cli_dealing
from extensions.cli import start as cli_init
from extensions.cli.checkpoints import checkpoints_of, resume_hint
from extensions.cli.config_file import ConfigFile
from extensions.cli.data import columns_of, names_of, taking_of
from extensions.cli.late import late
from extensions.errors import LostError, PeaError
from extensions.owners.data import is_table, write_parts
from extensions.owners.origin import Origin, write_features
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find_for
from extensions.runs.options import Meeting, RunOptions

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Train models on several parties' private data.",
)


@app.command()
def train(
    backend: Annotated[
        str, typer.Option(help="crypten, tfe (ABY3), or clear (plaintext comparison).")
    ] = "crypten",
    parties: Annotated[int, typer.Option(help="Number of parties, one process each.")] = 3,
    provider: options.Dealing = TrainConfig.provider,
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
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    noise_multiplier: options.Noise = None,
    calibration: options.Calibration = "pld",
    init: cli_init.Init = None,
    epsilon_init: cli_init.Epsilon = None,
    delta_init: cli_init.Delta = None,
    init_steps: cli_init.Steps = None,
    init_lr: cli_init.Lr = None,
    init_weighting: cli_init.Weighting = TrainConfig.init_weighting,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    lr: options.Lr = None,
    max_grad_norm: options.GradNorm = 1.0,
    sample_rate: options.Rate = 0.1,
    seed_data: cli_data.SeedData = 0,
    model: options.Model = "logistic",
    loss: options.LossName = TrainConfig.loss,
    frac_bits: options.Bits = 20,
    evaluate: options.Reveal = "mpc",
    no_dp: options.NoDp = False,
    insecure_fixed_randomness: options.Fixed = None,
    material: Annotated[
        Path | None, typer.Option(help="Folder of `pea prepare`, instead of a running dealer.")
    ] = None,
    players: Annotated[
        Path | None,
        typer.Option(help="With --backend tfe: file of players that `pea players` runs."),
    ] = None,
    json_out: options.Json = None,
    save: options.Save = None,
    checkpoint: cli_checkpoints.Folder = None,
    checkpoint_every: cli_checkpoints.Every = None,
    resume: cli_checkpoints.Resume = False,
    timeout: Annotated[
        float, typer.Option(help="Seconds after which the run is given up.")
    ] = 3600.0,
    config_file: ConfigFile = None,
) -> None:
    """Train one model on the records of several parties, all on this machine."""
    checkpoints = checkpoints_of(checkpoint, checkpoint_every, resume, material)
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
    config = options.config_of(
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
        **cli_init.settings(init, epsilon_init, delta_init, init_steps, init_lr, init_weighting),
        steps=steps,
        epochs=epochs,
        lr=lr,
        max_grad_norm=max_grad_norm,
        sample_rate=sample_rate,
        seed_data=seed_data,
        model=model,
        loss=loss,
        frac_bits=frac_bits,
        evaluate=evaluate,
        no_dp=no_dp,
        insecure_seed=insecure_fixed_randomness,
    )
    engine = find_for(config)
    taking = taking_of(features, weights, max_feature_norm, no_feature_cache)
    sources = origin.read(parties)
    settings = replace(config, classes=sources[0].classes)
    config = settings.resolved()
    console.prepare(json_out, save)
    console.notices(config, engine.notices(config))
    console.classes(sources[0].names)
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        with console.extracting() as taken:
            parts = taking.take([source.split for source in sources], taken)
        files = write_parts(parts, Path(folder))
        columns = parts[0].train_x.shape[1]
        config = settings.resolved(engine.failure_probability(settings, columns))
        del sources, parts
        folder_kept = None if checkpoints is None else checkpoints.folder
        with resume_hint(folder_kept), console.progress(config) as show:
            kept = RunOptions(
                save=save,
                timeout=timeout,
                material=material,
                players=players,
                checkpoints=checkpoints,
            )
            report = engine.train(config, files, show, kept)
    console.finish(report, json_out, save)


@app.command()
def party(
    rank: Annotated[int, typer.Option(help="This party's rank, 0..N-1.")],
    world_size: Annotated[int, typer.Option(help="Number of parties N.")],
    rendezvous: Annotated[str, typer.Option(help="tcp://HOST:PORT of party 0.")],
    records: Annotated[Path, typer.Option(help="This party's .npz, .csv or .parquet file.")],
    provider: options.Dealing = TrainConfig.provider,
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
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    noise_multiplier: options.Noise = None,
    calibration: options.Calibration = "pld",
    init: cli_init.Init = None,
    epsilon_init: cli_init.Epsilon = None,
    delta_init: cli_init.Delta = None,
    init_steps: cli_init.Steps = None,
    init_lr: cli_init.Lr = None,
    init_weighting: cli_init.Weighting = TrainConfig.init_weighting,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    lr: options.Lr = None,
    max_grad_norm: options.GradNorm = 1.0,
    sample_rate: options.Rate = 0.1,
    model: options.Model = "logistic",
    loss: options.LossName = TrainConfig.loss,
    frac_bits: options.Bits = 20,
    evaluate: options.Reveal = "mpc",
    no_dp: options.NoDp = False,
    json_out: options.Json = None,
    save: options.Save = None,
    checkpoint: cli_checkpoints.Folder = None,
    checkpoint_every: cli_checkpoints.Every = None,
    resume: cli_checkpoints.Resume = False,
    join_timeout: Annotated[float, typer.Option(help="Seconds to wait for all to join.")] = 300.0,
    config_file: ConfigFile = None,
) -> None:
    """Run one party of a training run; start the others, on their hosts, with the same options."""
    checkpoints = checkpoints_of(checkpoint, checkpoint_every, resume, material)
    config = options.config_of(
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
        **cli_init.settings(init, epsilon_init, delta_init, init_steps, init_lr, init_weighting),
        steps=steps,
        epochs=epochs,
        lr=lr,
        max_grad_norm=max_grad_norm,
        sample_rate=sample_rate,
        model=model,
        loss=loss,
        frac_bits=frac_bits,
        evaluate=evaluate,
        no_dp=no_dp,
    ).resolved()
    engine = find_for(config)
    console.prepare(json_out, save)
    console.notices(config, engine.notices(config))
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        if features is not None or is_table(records):
            chosen = features or TrainConfig.features
            taking = taking_of(chosen, weights, max_feature_norm, no_feature_cache)
            taken = cli_data.read_own(
                records, label, text, class_names, config.classes, seed_data, taking
            )
            records = write_features(taken, Path(folder) / "features.npz")
        folder_kept = None if checkpoints is None else checkpoints.folder
        with resume_hint(folder_kept), console.progress(config) as show:
            meeting = Meeting(
                rank=rank, rendezvous=rendezvous, join_timeout=join_timeout, dealer=dealer
            )
            kept = RunOptions(save=save, material=material, checkpoints=checkpoints)
            report = engine.train_party(config, records, meeting, show, kept)
    console.finish(report, json_out, save)


@app.command(name="fl", cls=late("fl.cli.command", "fl"))
def federated() -> None:
    """Train one model by federated averaging over simulated clients, and count what it costs."""


app.command(name="dealer")(cli_dealing.serve_dealer)
app.command()(cli_dealing.prepare)
app.command()(cli_dealing.players)
app.command()(cli_data.split)
app.command(name="features")(cli_data.take)


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
