"""What sharing takes from a model's accuracy: the same seeds in the clear and on shares."""

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.records import dealt
from benchmarks.accuracy.settings import PARTIES
from benchmarks.instruments.hosts import ABY3, CRYPTEN
from benchmarks.steps.model_step import CLASSES, MODELS, PIXELS
from benchmarks.tables import Table, published
from extensions.cli import console
from extensions.owners.data import Split, find_folder, load_raw, write_parts
from extensions.owners.origin import FeatureExtraction
from extensions.protocols.pea import public_start
from extensions.ring.fixed_point import Integers, encode
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find
from extensions.runs.options import RunOptions

NAME = "dpsgd-models-accuracy"
BACKENDS = {CRYPTEN: "crypten", ABY3: "tfe"}
CLEAR = "clear"
DATA, NORM, SEED = "mnist", 14.0, 7
RATES = {"LeNet-5": 10.0, "CNN": 30.0, "MLP": 30.0}
"""Learning rates, by model."""
SETTINGS: dict[str, Any] = {
    "loss": "softmax",
    "noise_multiplier": 0.5,
    "delta": 1e-5,
    "sample_rate": 0.005,
    "steps": 40,
    "max_grad_norm": 0.1,
    "max_feature_norm": NORM,
    "max_weight_norm": 4000.0,
    "frac_bits": 16,
    "physical_rows": 100,
}
"""Of every run. Little noise, so that few steps learn enough for points to tell runs apart."""


def config_of(model: str, backend: str) -> TrainConfig:
    """Returns the settings of a run of one of `MODELS`, whose randomness the seed determines."""
    return TrainConfig(
        model=MODELS[model],
        backend=backend,
        data=DATA,
        parties=PARTIES,
        classes=CLASSES,
        lr=RATES[model],
        evaluate="opened",
        insecure_seed=SEED,
        **SETTINGS,
    )


def trained(config: TrainConfig, parts: Sequence[Split]) -> tuple[float, Integers]:
    """Returns the accuracy that a run reports, and its weights and biases in ring units."""
    engine = find(config.backend)
    config = config.resolved(engine.noise_failure(config, parts[0].train_x.shape[1]))
    with tempfile.TemporaryDirectory(prefix="pea-") as folder, console.progress(config) as show:
        files = write_parts(parts, Path(folder))
        report = engine.train(config, files, show, RunOptions(timeout=4 * 3600.0))
    opened = [encode(x, config.frac_bits) for pair in report["parameters"] for x in pair]
    return report["accuracy"], flat_model(opened)


def row_of(
    model: str, host: str, parts: Sequence[Split], in_the_clear: tuple[float, Integers]
) -> dict[str, Any]:
    """Returns how far a model on shares is from the one in the clear, after the same steps.

    Args:
        model: of `MODELS`.
        host: of `BACKENDS`.
        parts: the parties' records.
        in_the_clear: what `trained` returned there.
    """
    config, (clear, expected) = config_of(model, BACKENDS[host]), in_the_clear
    secure, found = trained(config, parts)
    apart = np.abs(found - expected)
    way = np.linalg.norm(expected - flat_model(public_start(config, PIXELS)))
    return {
        "model": model,
        "host": host,
        "steps": config.steps,
        "in the clear, %": 100 * clear,
        "on shares, %": 100 * secure,
        "points apart": 100 * abs(secure - clear),
        "weights apart, % of their way": 100 * float(np.linalg.norm(apart) / way),
        "median ulps apart": float(np.median(apart)),
    }


def accuracy_tables(models: Sequence[str], hosts: Sequence[str]) -> Iterator[Table]:
    """Yields the table anew with each row; what is not measured stays as it was recorded.

    Args:
        models: of `MODELS`.
        hosts: of `BACKENDS`.

    Raises:
        ArgumentError: the data set is not here.
    """
    parts = dealt(images())
    before = published(NAME, **SETTINGS, seed=SEED)
    rows = {(row["model"], row["host"]): row for row in before.get("rows", [])}
    recorded = dict(before.get("settings", {}).get("recorded", {}))
    for model in models:
        in_the_clear = trained(config_of(model, CLEAR), parts)
        for host in hosts:
            rows[model, host] = row_of(model, host, parts, in_the_clear)
            recorded[f"{model}, {host}"] = datetime.now(UTC).date().isoformat()
            yield Table(
                NAME,
                [rows[key] for key in ((m, h) for m in MODELS for h in BACKENDS) if key in rows],
                data=DATA,
                parties=PARTIES,
                lr=RATES,
                seed=SEED,
                recorded=recorded,
                **SETTINGS,
            )


def images() -> Split:
    """Returns MNIST's pixels and labels, rows scaled to a norm of at most `NORM`."""
    folder = find_folder(DATA, None, download=False, files="its files")
    source = load_raw(DATA, folder, 0)
    (found,) = FeatureExtraction(max_feature_norm=NORM).extract([source], lambda *_: None)
    return found


def flat_model(parts: Sequence[Integers]) -> Integers:
    """Returns all weights and biases as one vector."""
    return np.concatenate([part.ravel() for part in parts])
