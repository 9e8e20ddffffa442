"""`pea train` on the digits: secure, plaintext with the same noise, and without privacy."""

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from benchmarks.report import publish
from extensions.backends import find
from extensions.config import ABY3_SERVERS, TrainConfig
from extensions.data import load, write_party_files


def main(
    seeds: int = typer.Option(5, help="Runs of each kind, with fresh noise."),
    parties: int = 3,
    epsilon: float = 2.0,
    delta: float = 1e-5,
) -> None:
    """Accuracy, rounds, bytes and time of training on the digits at epsilon."""
    private = TrainConfig(parties=parties, epsilon=epsilon, delta=delta).resolved()
    kinds = {
        "CrypTen, private": private,
        "plaintext, private": replace(private, backend="clear"),
        "plaintext, not private": TrainConfig(parties=parties, backend="clear", private=False),
    }
    if parties == ABY3_SERVERS:
        kinds["ABY3, private"] = replace(private, backend="tfe")
    publish(
        f"training-digits-{parties}-parties",
        [_row(name, config, seeds) for name, config in kinds.items()],
        seeds=seeds,
        parties=parties,
        network="loopback",
    )


def _row(name: str, config: TrainConfig, seeds: int) -> dict[str, Any]:
    split = load(config.data, None, config.seed_data)
    reports = []
    for _ in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            files = write_party_files(split, config.parties, Path(folder))
            engine = find(config.backend)
            reports.append(engine.train(config, files, lambda _: None, save=None, timeout=600.0))
    accuracies = [100 * report["accuracy"] for report in reports]
    return {
        "run": name,
        "epsilon": reports[0]["epsilon"] or "infinite",
        "accuracy, %": statistics.mean(accuracies),
        "standard deviation": statistics.stdev(accuracies) if seeds > 1 else 0.0,
        "steps": config.steps,
        "rounds": reports[0]["rounds"],
        "MB/party": reports[0]["bytes_per_party"] / 1e6,
        "seconds": statistics.median(report["seconds"] for report in reports),
    }
