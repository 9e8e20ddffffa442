"""Where a run of `pea fl` is kept: its checkpoint, its model, and how it goes on."""

from pathlib import Path

import torch
from torch import nn

from extensions import durable
from extensions.errors import ArgumentError
from extensions.owners.data import write_private
from fl.cli.choices import as_options
from fl.training.federated import FederatedAveraging

STATE_DICT, ARRAYS = ".pt", ".npz"


def check_files(checkpoint: Path | None, resume: bool, save: Path | None) -> None:
    """Checks that no checkpoint would be overwritten, and the model's format is known.

    Raises:
        ArgumentError: a checkpoint that is missing or would be overwritten, or a model's file of
            another kind.
    """
    if resume and (checkpoint is None or not checkpoint.is_file()):
        given = None if checkpoint is None else str(checkpoint)
        raise ArgumentError("checkpoint", given, "a file to go on from, with {resume}")
    if checkpoint is not None and not resume and checkpoint.exists():
        advice = "Give {resume} to go on from it."
        raise ArgumentError("checkpoint", str(checkpoint), "a file that is not there yet", advice)
    if save is not None and save.suffix not in (STATE_DICT, ARRAYS):
        allowed = f"a name that ends in {STATE_DICT} (state_dict) or {ARRAYS} (arrays)"
        raise ArgumentError("save", str(save), allowed)


def resume(run: FederatedAveraging, path: Path) -> None:
    """Loads the run from its checkpoint.

    Raises:
        ArgumentError: the checkpoint is damaged, or of a run of other settings.
    """
    with as_options(path="checkpoint"):
        run.load(path)


def remaining_rounds(run: FederatedAveraging, rounds: int) -> int:
    """Returns how many of all rounds are left; 0: the report alone.

    Raises:
        ArgumentError: more are done.
    """
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
