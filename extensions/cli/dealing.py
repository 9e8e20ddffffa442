"""Commands of those who compute nothing on records: dealers, and players of TF Encrypted."""

import importlib
from pathlib import Path
from typing import Annotated

import typer

from extensions.cli import console, options
from extensions.cli import data as cli_data
from extensions.cli import start as cli_init
from extensions.cli.data import taking_of
from extensions.errors import ArgumentError
from extensions.owners.data import Sizes
from extensions.owners.origin import Origin, sizes_of
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find, find_for


def serve_dealer(
    bind: Annotated[str, typer.Option(help="HOST:PORT to listen at.")],
    parties: Annotated[int, typer.Option(help="Number of parties.")],
) -> None:
    """Deal for one run of `pea party`: on a host of somebody who owns no data and sides with none.

    It learns shapes and counts, ends with the run, and ends with status 1 if a party is lost.
    """
    dealt = find(TrainConfig.backend).deal(bind, parties)
    typer.echo(f"dealt {dealt['tuples']} tuples, {dealt['bytes']} bytes of corrections")


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
    no_dp: options.NoDp = False,
) -> None:
    """Deal for one run beforehand: on a host of somebody who owns no data and sides with none.

    Each party gets its own file, in private, and gives the same options as here. A file is of use
    once. It is known from public sizes alone which tuples the run needs.
    """
    config = options.config_of(
        parties=parties,
        classes=classes,
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
        no_dp=no_dp,
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
        paths = find_for(config).prepare(config, sizes, out, show)
    for path in paths:
        typer.echo(f"{path} {path.stat().st_size} bytes")


def players(
    config: Annotated[Path, typer.Option(help="JSON file of names and HOST:PORT.")],
    player: Annotated[
        str | None, typer.Option(help="The one player of this host; all of them if left out.")
    ] = None,
) -> None:
    """Run the players of a TF Encrypted session; its script reaches them by the same file.

    They end with this command, and it ends with status 1 if one of them ends.
    """
    importlib.import_module("tfe_ext.players.launch").serve(config, player, tell=typer.echo)


def _numbers(name: str, text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in (text or "").split(","))
    except ValueError:
        raise ArgumentError(name, text, "whole numbers, one a party, such as 900,800,850") from None
