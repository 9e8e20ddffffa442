"""A run of `pea fl`, from its options to its report."""

from pathlib import Path

from extensions.cli import console
from fl.cli import keeping
from fl.cli.building import run_of, settings_of
from fl.cli.choices import as_options
from fl.cli.mechanisms import delta_of, protects
from fl.cli.options import Experiment, Result
from fl.cli.report import record, summary
from fl.training.callbacks import Callback
from fl.training.callbacks.table import CSVWriter
from fl.training.callbacks.tensorboard import TensorBoardWriter


def run(options: Experiment, config_file: Path | None) -> None:
    """Runs an experiment, shows its report, and writes what it was asked to.

    Args:
        options: of the run.
        config_file: which they come from, for the report.

    Raises:
        ArgumentError: an option that is out of range, or does not go with another one.
    """
    protection, result = options.protection, options.result
    keeping.check_files(result.checkpoint, result.resume, result.save)
    callbacks = _callbacks(result)
    federated, test = run_of(options)
    settings = settings_of(options, federated)
    if result.resume and result.checkpoint is not None:
        keeping.resume(federated, result.checkpoint)
    rounds = keeping.remaining_rounds(federated, options.training.rounds)
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
    console.deliver(
        shown,
        lambda: keeping.save_model(federated.model, result.save),
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
