"""Where the steps of a convolutional network's run go, on CrypTen beside the clear ring."""

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import crypten_ext
from benchmarks.accuracy.records import dealt
from benchmarks.accuracy.settings import PARTIES
from benchmarks.instruments.trajectories import trajectory
from benchmarks.steps.models.same_seeds import DATA, NORM, SEED, images
from benchmarks.tables import publish
from crypten_ext.processes.launch import Parties
from crypten_ext.processes.worker import Context
from crypten_ext.run.host import CrypTenHost
from extensions.owners.data import Split, read_party_file, write_parts
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OwnRecords, check_records
from extensions.protocols.pea import public_start
from extensions.ring.fixed_point import Integers
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find

import crypten

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


def in_crypten(
    context: Context, *, config: TrainConfig, files: Sequence[Path], steps: int, seed: int
) -> Models:
    """Returns weights and biases after each of the first steps; in every party."""
    crypten_ext.enable()
    crypten.cfg.mpc.provider = "DEALER"
    crypten.cfg.encoder.precision_bits = config.frac_bits
    part = read_party_file(files[context.rank])
    host = CrypTenHost(config.frac_bits, InsecureSeededSource(seed))
    start = public_start(config, part.train_x.shape[1])
    return trajectory(host, config, [checked(config, part)], start, range(1, steps + 1))


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
        found, expected, guided = map(_flat, models)
        in_one.append(np.abs(found - guided).max())
        if t % every:
            continue
        apart = np.abs(found - expected)
        way = np.linalg.norm(expected - _flat(start))
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
    config = TrainConfig(data=DATA, parties=PARTIES, classes=10, backend="crypten", **SETTINGS)
    rows = measured(config, dealt(images()), STEPS, SHOWN)
    recorded = datetime.now(UTC).date().isoformat()
    publish(NAME, rows, data=DATA, parties=PARTIES, seed=SEED, recorded=recorded, **SETTINGS)


def measured(
    config: TrainConfig, parts: Sequence[Split], steps: int, every: int
) -> list[dict[str, Any]]:
    """Returns the rows of the first steps of a run, one of `every`.

    Args:
        config: of the run.
        parts: the parties' records.
        steps: that are made.
        every: as for `rows_of`.
    """
    columns = parts[0].train_x.shape[1]
    config = config.resolved(find(config.backend).noise_failure(config, columns))
    start = public_start(config, columns)
    records = [checked(config, part) for part in parts]
    with (
        tempfile.TemporaryDirectory(prefix="pea-") as folder,
        Parties(len(parts), provider="dealer", timeout=TIMEOUT) as pool,
    ):
        secure, *_ = pool.run(
            "benchmarks.steps.models.trajectory:in_crypten",
            config=config,
            files=write_parts(parts, Path(folder)),
            steps=steps,
            seed=SEED,
        )
    clear = trajectory(_in_the_clear(config), config, records, start, range(1, steps + 1))
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


def checked(config: TrainConfig, part: Split) -> OwnRecords:
    """Returns an owner's records as a run takes them."""
    return check_records(
        part.train_x,
        part.train_y,
        frac_bits=config.frac_bits,
        classes=config.classes,
        max_feature_norm=config.max_feature_norm,
    )


def _in_the_clear(config: TrainConfig) -> ClearHost:
    source = InsecureSeededSource(SEED)
    return ClearHost(config.frac_bits, parties=config.parties, owners=config.parties, source=source)


def _flat(model: Sequence[Integers]) -> np.ndarray:
    return np.concatenate([part.ravel() for part in model]).astype(np.float64)
