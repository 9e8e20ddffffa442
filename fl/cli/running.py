"""A run of `pea fl`, from its options to its report."""

from pathlib import Path

import torch
from torch import nn

from extensions import durable
from extensions.cli import console
from extensions.data.datasets import write_private
from extensions.errors import ArgumentError
from fl.cli.building import run_of, settings_of
from fl.cli.choices import as_options
from fl.cli.mechanisms import delta_of, protects
from fl.cli.options import Experiment, Result
from fl.cli.report import record, summary
from fl.training.callbacks import Callback, CSVWriter, TensorBoardWriter
from fl.training.federated import FederatedAveraging


def run(options: Experiment, config_file: Path | None) -> None:
    """Runs an experiment, shows its report, and writes what it was asked to."""
    protection, result = options.protection, options.result
    check_files(result.checkpoint, result.resume, result.save)
    callbacks = _callbacks(result)
    federated, test = run_of(options)
    settings = settings_of(options, federated)
    if result.resume and result.checkpoint is not None:
        resume(federated, result.checkpoint)
    rounds = remaining_rounds(federated, options.training.rounds)
    if protection.aggregator.name == "plain":
        console.notice("--aggregator plain: insecure, the server reads every client's update.")
    if getattr(federated.aggregator, "insecure_small_key", False):
        console.notice("--paillier.insecure-small-key: the key can be broken.")
    with console.resume_hint(result.checkpoint):
        if rounds:
            federated.fit(
                rounds,
                test,
                evaluate_every=result.evaluate_every,
                checkpoint=result.checkpoint,
                callbacks=callbacks,
            )
        else:
            for callback in callbacks:
                callback(federated.history, federated.model)
    shown = summary(
        federated,
        {name: settings[name] for name in ("aggregator", "mechanism", "data", "model")},
        delta_of(protection),
        protects(protection.mechanism.name, federated.mechanism),
    )
    settings["config_file"] = None if config_file is None else str(config_file)
    files = (result.save, result.json_out, result.csv, result.tensorboard, result.checkpoint)
    console.deliver(
        {**shown, "written": [str(path) for path in files if path is not None] or None},
        lambda: save_model(federated.model, result.save),
        lambda: console.write(record(federated, shown, settings), result.json_out),
    )


def _callbacks(result: Result) -> list[Callback]:
    found: list[Callback] = []
    if result.csv is not None:
        found.append(CSVWriter(result.csv))
    if result.tensorboard is not None:
        with as_options(folder="tensorboard"):
            found.append(TensorBoardWriter(result.tensorboard))
    return found


STATE_DICT, ARRAYS = ".pt", ".npz"


def check_files(checkpoint: Path | None, resume: bool, save: Path | None) -> None:
    """Checks that no checkpoint is missing or overwritten, and the model's format is known."""
    if resume and (checkpoint is None or not checkpoint.is_file()):
        given = None if checkpoint is None else str(checkpoint)
        raise ArgumentError("checkpoint", given, "a file to go on from, with {resume}")
    if checkpoint is not None and not resume and checkpoint.exists():
        advice = "Give {resume} to go on from it."
        raise ArgumentError("checkpoint", str(checkpoint), "a new file", advice)
    if save is not None and save.suffix not in (STATE_DICT, ARRAYS):
        allowed = f"a name that ends in {STATE_DICT} (state_dict) or {ARRAYS} (arrays)"
        raise ArgumentError("save", str(save), allowed)


def resume(run: FederatedAveraging, path: Path) -> None:
    """Loads the run from its checkpoint."""
    with as_options(path="checkpoint"):
        run.load(path)


def remaining_rounds(run: FederatedAveraging, rounds: int) -> int:
    """Returns how many of all rounds are left; 0: the report alone."""
    done = len(run.history)
    if rounds < done:
        raise ArgumentError("rounds", rounds, f"at least {done}, the rounds that are done")
    return rounds - done


def save_model(model: nn.Module, path: Path | None) -> None:
    """Writes the model's values into a file that its owner alone may read."""
    if path is None:
        return
    values = model.state_dict()
    if path.suffix == ARRAYS:
        write_private(path, **{name: value.numpy() for name, value in values.items()})
        return
    with durable.write(path) as file:
        torch.save(values, file)
