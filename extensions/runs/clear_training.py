"""Plaintext training with the arithmetic, sampling and noise of a secure run: the comparison."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from extensions.data.datasets import Split
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.runs.callbacks import Progress
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions
from extensions.runs.training import run


def train(
    config: TrainConfig,
    parts: Sequence[Split],
    progress: Progress,
    options: CheckpointOptions | None = None,
    ledgers: Sequence[Path | None] = (),
) -> dict[str, Any]:
    """Returns the report of one plaintext run over all parties' records.

    It has the model, unless the number of correct predictions is noised or left out. The config's
    `parties` decides over how many draws the noise is summed. With an insecure seed a run that was
    resumed is that of no interruption, bit for bit.
    """
    seeded = None if config.insecure_seed is None else InsecureSeededSource(config.insecure_seed)
    host = ClearHost(
        config.frac_bits,
        parties=config.parties,
        owners=len(parts),
        source=seeded or SystemSource(),
        coins=None if seeded is None else seeded.rounding(),
    )
    shown = config.hidden and config.evaluate == "mpc"
    opened = config.derived(evaluate="opened") if shown else config
    report = run(host, opened, parts, progress, RunOptions(checkpoints=options, ledgers=ledgers))
    return {**report, "opened": ["everything: this backend is plaintext"]}
