"""Where the steps of a convolutional network's run go, on CrypTen beside the clear ring.

A truncation rounds up or down by a coin. The clear ring makes the run twice: by coins of its own,
and by those of the run on shares, whose every weight it must meet then.
"""

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.records import dealt
from benchmarks.accuracy.settings import PARTIES
from benchmarks.instruments.rounding import Again, keep_coins
from benchmarks.instruments.trajectories import trajectory
from benchmarks.steps.models.same_seeds import DATA, NORM, SEED, flat_model, images
from benchmarks.tables import Table
from extensions.owners.data import Split, write_parts
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.pea import public_start
from extensions.ring.clear import Coins
from extensions.ring.fixed_point import Integers
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import settled
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
    "lr": 5.0,
    "lr_schedule": "linear",
    "max_grad_norm": 1.0,
    "max_feature_norm": NORM,
    "max_weight_norm": 10000.0,
    "frac_bits": 16,
    "physical_rows": 300,
}
"""Of the run that learns MNIST from its pixels at epsilon 2; its first steps are made here."""
Models = Sequence[Sequence[Integers]]


def in_crypten(
    context: Any, *, config: TrainConfig, files: Sequence[Path], steps: int, coins: Path
) -> Models:
    """Returns weights and biases after each of the first steps; in every party.

    The first party writes by which coins it rounded.
    """
    from crypten_ext.run.training import join

    host, part, _ = join(config, files[context.rank], RunOptions())
    records = [checked_records(part.train_x, part.train_y, config)]
    with ExitStack() as stack:
        if context.rank == 0:
            keep_coins(host.ring, stack.enter_context(coins.open("wb")))
        return trajectory(host, config, records, _start(config, part), range(1, steps + 1))


def rows_of(
    start: Sequence[Integers], secure: Models, clear: Models, alike: Models, every: int
) -> list[dict[str, Any]]:
    """Returns how far a run on shares is from one in the clear, by step.

    Args:
        start: the model before the first step.
        secure: after each step on shares.
        clear: after each step in the clear, by coins of its own.
        alike: by those of the run on shares.
        every: one of so many steps is shown, with the farthest weights since the last one shown.
    """
    rows: list[dict[str, Any]] = []
    by_same: list[float] = []
    for t, models in enumerate(zip(secure, clear, alike, strict=True), start=1):
        found, expected, same = map(flat_model, models)
        by_same.append(np.abs(found - same).max())
        if t % every:
            continue
        apart = np.abs(found - expected)
        way = np.linalg.norm(expected - flat_model(start))
        rows.append(
            {
                "step": t,
                "farthest by the same coins, ulps": int(max(by_same[-every:])),
                "within 2 ulps a step by others, %": 100 * float(np.mean(apart <= 2 * t)),
                "median ulps apart": float(np.median(apart)),
                "farthest, ulps": int(apart.max()),
                "apart, % of their way": 100 * float(np.linalg.norm(apart) / way),
            }
        )
    return rows


def trajectory_table() -> Table:
    """Returns how far the secure run is from the one in the clear.

    Raises:
        ArgumentError: the data set is not here.
    """
    from crypten_ext.processes.launch import Parties

    parts = dealt(images())
    config = TrainConfig(
        data=DATA, parties=PARTIES, classes=10, backend="crypten", insecure_seed=SEED, **SETTINGS
    )
    config = settled(config, parts[0].train_x.shape[1])
    with (
        tempfile.TemporaryDirectory(prefix="pea-") as folder,
        Parties(PARTIES, provider="dealer", timeout=TIMEOUT) as pool,
    ):
        coins = Path(folder) / "coins"
        secure, *_ = pool.run(
            "benchmarks.steps.models.trajectory:in_crypten",
            config=config,
            files=write_parts(parts, Path(folder)),
            steps=STEPS,
            coins=coins,
        )
        rows = beside_the_clear(config, parts, secure, coins, SHOWN)
    return Table(NAME, rows, data=DATA, parties=PARTIES, seed=SEED, **SETTINGS)


def beside_the_clear(
    config: TrainConfig, parts: Sequence[Split], secure: Models, coins: Path, every: int
) -> list[dict[str, Any]]:
    """Returns the rows of a run on shares, whose randomness a seed determines.

    Args:
        config: of the run.
        parts: the parties' records.
        secure: the model after each of the first steps.
        coins: by which it rounded.
        every: as for `rows_of`.
    """
    start, numbers = _start(config, parts[0]), range(1, len(secure) + 1)
    records = [checked_records(part.train_x, part.train_y, config) for part in parts]
    with coins.open("rb") as file:
        clear, alike = (
            trajectory(_in_the_clear(config, tossed), config, records, start, numbers)
            for tossed in (None, Again(file))
        )
    return rows_of(start, secure, clear, alike, every)


def _start(config: TrainConfig, part: Split) -> list[Integers]:
    return public_start(config, part.train_x.shape[1])


def _in_the_clear(config: TrainConfig, coins: Coins | None) -> ClearHost:
    assert config.insecure_seed is not None
    source = InsecureSeededSource(config.insecure_seed)
    owners = config.parties
    return ClearHost(
        config.frac_bits, parties=config.parties, owners=owners, source=source, coins=coins
    )
