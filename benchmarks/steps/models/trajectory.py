"""Where the steps of a convolutional network's run go, on CrypTen beside the clear ring."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.records import dealt
from benchmarks.accuracy.settings import PARTIES
from benchmarks.instruments.trajectories import trajectory
from benchmarks.steps.models.same_seeds import DATA, NORM, SEED, flat_model, images
from benchmarks.tables import publish
from extensions.owners.data import Split, write_parts
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.pea import public_start
from extensions.ring.fixed_point import Integers
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find
from extensions.runs.options import RunOptions
from extensions.runs.owned import checked_records

NAME = "dpsgd-models-trajectory"
STEPS, SHOWN, TIMEOUT = 30, 5, 3 * 3600.0
"""Steps that are made, of how many one is shown, and seconds that they may take."""
SETTINGS: dict[str, Any] = {
    "model": "cnn",
    "loss": "softmax",
    "epsilon": 2.0,
    "delta": 1e-5,
    "sample_rate": 0.04,
    "steps": 500,
    "lr": 4.0,
    "lr_schedule": "linear",
    "max_grad_norm": 1.0,
    "max_feature_norm": NORM,
    "max_weight_norm": 8000.0,
    "frac_bits": 16,
    "physical_rows": 300,
}
"""Of the run that learns MNIST from its pixels at epsilon 2; its first steps are made here."""
Models = Sequence[Sequence[Integers]]


def in_crypten(context: Any, *, config: TrainConfig, files: Sequence[Path], steps: int) -> Models:
    """Returns weights and biases after each of the first steps; in every party."""
    from crypten_ext.run.training import join

    host, part = join(config, files[context.rank], RunOptions())
    records = [checked_records(part.train_x, part.train_y, config)]
    return trajectory(host, config, records, _start(config, part), range(1, steps + 1))


def rows_of(
    start: Sequence[Integers], secure: Models, clear: Models, alone: Models, every: int
) -> list[dict[str, Any]]:
    """Returns how far a run on shares is from one in the clear, by step.

    Args:
        start: the model before the first step.
        secure: after each step on shares.
        clear: after each step in the clear.
        alone: after a step in the clear from where the secure run was before it.
        every: one of so many steps is shown, with the farthest weights since the last one shown.
    """
    rows: list[dict[str, Any]] = []
    in_one: list[float] = []
    for t, models in enumerate(zip(secure, clear, alone, strict=True), start=1):
        found, expected, guided = map(flat_model, models)
        in_one.append(np.abs(found - guided).max())
        if t % every:
            continue
        apart = np.abs(found - expected)
        way = np.linalg.norm(expected - flat_model(start))
        rows.append(
            {
                "step": t,
                "farthest in one step, ulps": int(max(in_one[-every:])),
                "within 2 ulps a step, %": 100 * float(np.mean(apart <= 2 * t)),
                "median ulps apart": float(np.median(apart)),
                "farthest, ulps": int(apart.max()),
                "apart, % of their way": 100 * float(np.linalg.norm(apart) / way),
            }
        )
    return rows


def publish_trajectory() -> None:
    """Writes how far the secure run is from the one in the clear.

    Raises:
        ArgumentError: the data set is not here.
    """
    from crypten_ext.processes.launch import Parties

    parts = dealt(images())
    config = TrainConfig(
        data=DATA, parties=PARTIES, classes=10, backend="crypten", insecure_seed=SEED, **SETTINGS
    )
    config = config.resolved(find("crypten").noise_failure(config, parts[0].train_x.shape[1]))
    with (
        tempfile.TemporaryDirectory(prefix="pea-") as folder,
        Parties(PARTIES, provider="dealer", timeout=TIMEOUT) as pool,
    ):
        secure, *_ = pool.run(
            "benchmarks.steps.models.trajectory:in_crypten",
            config=config,
            files=write_parts(parts, Path(folder)),
            steps=STEPS,
        )
    rows = beside_the_clear(config, parts, secure, SHOWN)
    publish(NAME, rows, data=DATA, parties=PARTIES, seed=SEED, **SETTINGS)


def beside_the_clear(
    config: TrainConfig, parts: Sequence[Split], secure: Models, every: int
) -> list[dict[str, Any]]:
    """Returns the rows of a run on shares, whose randomness a seed determines.

    Args:
        config: of the run.
        parts: the parties' records.
        secure: the model after each of the first steps.
        every: as for `rows_of`.
    """
    start, numbers = _start(config, parts[0]), range(1, len(secure) + 1)
    records = [checked_records(part.train_x, part.train_y, config) for part in parts]
    clear = trajectory(_in_the_clear(config), config, records, start, numbers)
    alone = steps_alone(_in_the_clear(config), config, records, [start, *secure[:-1]])
    return rows_of(start, secure, clear, alone, every)


def steps_alone(
    host: ClearHost, config: TrainConfig, records: Sequence[OwnRecords], before: Models
) -> Models:
    """Returns the models after steps 1, 2 and so on, each of which begins with a given model.

    Args:
        host: whose source goes on from step to step.
        config: of the run.
        records: of all owners.
        before: the model before each step.
    """
    return [
        trajectory(host, config, records, model, range(t, t + 1))[0]
        for t, model in enumerate(before, start=1)
    ]


def _start(config: TrainConfig, part: Split) -> list[Integers]:
    return public_start(config, part.train_x.shape[1])


def _in_the_clear(config: TrainConfig) -> ClearHost:
    assert config.insecure_seed is not None
    source = InsecureSeededSource(config.insecure_seed)
    return ClearHost(config.frac_bits, parties=config.parties, owners=config.parties, source=source)
