"""The runs that are attacked: `pea train` as it is, and with faults that an audit has to find."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.audit.games import CANARY_NORM, Game, Model
from extensions.owners.data import write_parts
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.protocols.settings import account
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find_for, settled
from extensions.runs.options import RunOptions
from extensions.runs.training import run as make_run

OPTIONS = RunOptions(timeout=3600.0)

NO_FAULT = "none"
FAULTS: Mapping[str, Mapping[str, float]] = {
    "a tenth of the noise": {"noise_multiplier": 0.1},
    "no clipping": {"max_grad_norm": CANARY_NORM, "noise_multiplier": 1 / CANARY_NORM},
}
"""By what the settings that a run computes with are multiplied, but not those that it claims.

Without clipping the noise is as it was, and the bound is above every gradient of a planted record.
"""


class WithNullRecords:
    """Draws of a source, but that null records are never sampled: they count as padding does.

    Args:
        source: of the draws.
        absent: of each party, which records are null.
    """

    def __init__(self, source: NoiseSource, absent: Sequence[npt.NDArray[np.bool_]]) -> None:
        self._source = source
        self._absent = absent

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        """Returns the source's draws."""
        return self._source.gaussian(party, scale, shape)

    def bernoulli(self, party: int, probability: float, size: int) -> npt.NDArray[np.bool_]:
        """Returns the source's draws, without the null records."""
        drawn: npt.NDArray[np.bool_] = self._source.bernoulli(party, probability, size)
        return drawn & ~self._absent[party]


def claimed(config: TrainConfig, features: int) -> float:
    """Returns the epsilon that a run with a target reports."""
    ledger, found = Ledger(), settled(config, features)
    account(ledger, "training", found, found.steps)
    assert config.delta is not None
    return ledger.get_epsilon(config.delta, neighbours=config.neighbours)


def released(config: TrainConfig, game: Game, fault: str = NO_FAULT) -> Model:
    """Returns the model that a run on a game's records opens.

    Args:
        config: with a target.
        game: whose null records, if there are any, only the backend clear can have.
        fault: of `FAULTS`, if any.
    """
    features = game.parts[0].train_x.shape[1]
    run = settled(config, features)
    if fault != NO_FAULT:
        others = {name: by * getattr(run, name) for name, by in FAULTS[fault].items()}
        run = settled(replace(run, settled=False, epsilon=None, **others), features)
    if any(own.any() for own in game.absent):
        return _released_with_null_records(run, game)
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        files = write_parts(game.parts, Path(folder))
        return _model(find_for(run).train(run, files, lambda event: None, OPTIONS))


def _released_with_null_records(config: TrainConfig, game: Game) -> Model:
    host = ClearHost(
        config.frac_bits,
        parties=config.parties,
        owners=len(game.parts),
        source=WithNullRecords(SystemSource(), game.absent),
    )
    return _model(make_run(host, config, game.parts, lambda event: None, OPTIONS))


def _model(report: Mapping[str, Any]) -> Model:
    model: Model = report["parameters"]
    return model
