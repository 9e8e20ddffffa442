"""The accuracy of plaintext runs with each loss, at settings chosen for it."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from extensions.network.losses import Loss
from extensions.owners.data import Split, split_among
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig

COMPARED: tuple[Loss, ...] = ("sigmoid", "softmax")
NORMS = (0.5, 1.0)
"""Clipping norms C that are tried."""


def chosen(config: TrainConfig, split: Split, rates: Sequence[float], trials: int) -> TrainConfig:
    """Returns the config with the rate and bound that do best on a fifth of the training records.

    Held-out records are not used. The choice costs privacy that nothing here accounts for: a real
    run would have to pay for it.
    """
    tried = inner(split)
    candidates = [
        replace(config, lr=rate / norm, max_grad_norm=norm) for rate in rates for norm in NORMS
    ]
    return max(candidates, key=lambda one: statistics.mean(accuracies(one, tried, trials)))


def inner(split: Split) -> Split:
    """Returns the training records, a fifth of which are held out."""
    cut = len(split.train_x) // 5
    return Split(
        train_x=split.train_x[cut:],
        train_y=split.train_y[cut:],
        test_x=split.train_x[:cut],
        test_y=split.train_y[:cut],
    )


def accuracies(config: TrainConfig, split: Split, runs: int) -> list[float]:
    """Returns the accuracies of plaintext runs, in per cent, with fresh sampling and noise."""
    parts = split_among(split, config.parties)
    return [100 * train(config, parts, lambda _: None)["accuracy"] for _ in range(runs)]


def accuracy_rows(
    name: str,
    split: Split,
    config: TrainConfig,
    *,
    rates: Sequence[float],
    runs: int,
    trials: int,
) -> list[dict[str, Any]]:
    """Returns one row for each loss of `COMPARED`, with settings chosen for it."""
    rows = []
    for loss in COMPARED:
        best = chosen(replace(config, loss=loss), split, rates, trials)
        found = accuracies(best, split, runs)
        rows.append(
            {
                "data": name,
                "loss": loss,
                "C": best.max_grad_norm,
                "lr": best.lr,
                "accuracy, %": statistics.mean(found),
                "standard deviation": statistics.stdev(found),
                "runs": runs,
            }
        )
        print(rows[-1], flush=True)
    return rows
