"""The runs that are attacked: `pea train` as it is, and with faults that an audit has to find."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from extensions.data.datasets import Split, write_parts
from extensions.data.schema.encoding import encode_unlabelled
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.protocols.noisy_sums.additive.basis import INTERCEPT, MATRIX_BITS, OPENED_BITS
from extensions.protocols.noisy_sums.additive.training import begun
from extensions.protocols.settings import account
from extensions.ring.fixed_point import Integers, Reals
from extensions.ring.interface import NoiseSource
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find, find_for
from extensions.runs.local_training import account_for_start
from extensions.runs.options import RunOptions
from extensions.runs.training import run as make_run

Model = Sequence[tuple[Reals, Reals]]
"""Weight and bias of each layer."""

CANARY_NORM = 16.0
"""Of a planted record: against it the bias hardly counts, and its gradient is always clipped."""


@dataclass(frozen=True)
class Game:
    """Records, and what an attacker who knows all but the coins makes of the model.

    Attributes:
        parts: each party's records.
        coins: 1 or -1, each of which decided over one record.
        absent: of each party, the training records that its coins made null records.
        scores: of a model, one for each coin: high for 1.
        of_opened: whether it is of a run's settings and all that it opens in turn, in plaintext.
    """

    parts: Sequence[Split]
    coins: np.ndarray
    absent: Sequence[np.ndarray]
    scores: Callable[[Model], np.ndarray]
    of_opened: bool = False


def toss(count: int, draws: np.random.Generator) -> np.ndarray:
    """Returns fair coins, 1 or -1."""
    return draws.choice((-1, 1), count)


def planted(count: int, parties: int, draws: np.random.Generator, *, null: bool) -> Game:
    """Returns a game of records that are made to be found: each has a feature of its own.

    Of two classes a coin decides over the label of its record; if null, over whether the record
    counts, of a label that everybody knows. The gradients of the two labels are opposite, and those
    of two records orthogonal but for the bias: no pair of records is further apart.
    """
    coins = toss(count, draws)
    features = CANARY_NORM * np.eye(count)
    labels = np.arange(count) % 2 if null else (coins + 1) // 2
    signs = 2 * labels - 1 if null else np.ones(count)
    absent = (coins == -1) & null

    def scores(model: Model) -> np.ndarray:
        ((weight, _),) = model
        return np.asarray(signs * (weight[1] - weight[0]))

    kept = np.array_split(absent, parties)
    return Game(_parts(features, labels, parties), coins, kept, scores)


def planted_in_table(config: TrainConfig, count: int, draws: np.random.Generator) -> Game:
    """Returns a game of an additive model's records, whose cells are drawn, and coins their labels.

    The attacker is a party: it has all that is opened less its own noise, knows each record's part
    of it but for its residual's sign, and solves for the residuals of all at once.
    """
    grid = config.grid
    assert grid is not None
    table = {
        column.column.name: draws.choice(np.array(column.labels, dtype=object), count)
        for column in grid.columns
    }
    features, coins = encode_unlabelled(grid.schema, table).x, toss(count, draws)

    def scores(told: Any) -> np.ndarray:
        run, opened = told
        bins, learner = begun(run, grid, None, count)
        sums = opened[: run.steps]
        parts = [np.full((count, 1), INTERCEPT, dtype=np.int64)]
        for own, basis, cells in zip(
            bins, learner.bases, (grid.place(features) - grid.offsets[:-1]).T, strict=True
        ):
            parts.append(basis.matrix.T[own.of_cell[cells]])
        rows = np.concatenate(parts, axis=1) / 2.0**MATRIX_BITS
        total = np.ldexp(sum(sums).astype(float), -OPENED_BITS)[0]
        ridge = (run.noise * learner.reach) ** 2 / run.steps
        return np.asarray(np.linalg.solve(rows @ rows.T + ridge * np.eye(count), rows @ total))

    absent = np.array_split(np.zeros(count, dtype=bool), config.parties)
    parts = _parts(features, (coins + 1) // 2, config.parties)
    return Game(parts, coins, absent, scores, of_opened=True)


def _parts(features: Reals, labels: Integers, parties: int) -> list[Split]:
    """Returns each party's share of planted records, the first of which it holds out, too."""
    return [
        Split(
            train_x=features[own],
            train_y=labels[own],
            test_x=features[own[:1]],
            test_y=labels[own[:1]],
        )
        for own in np.array_split(np.arange(len(features)), parties)
    ]


def linear(model: Model, x: Reals) -> Reals:
    """Returns the logits of rows."""
    ((weight, bias),) = model
    return np.asarray(x @ weight.T + bias)


def additive(config: TrainConfig, model: Model, x: Reals) -> Reals:
    """Returns the logits of rows by an additive model's cells."""
    grid, ((weight, bias),) = config.grid, model
    assert grid is not None
    return np.asarray(weight.T[grid.place(x)].sum(axis=1) + bias)


def natural(
    features: Split,
    parties: int,
    draws: np.random.Generator,
    logits_of: Callable[[Model, Reals], Reals] = linear,
) -> Game:
    """Returns a membership game on real records: of each pair a coin decides which is trained on.

    The attacker compares the losses of both, as whoever knows candidates can.
    """
    order = draws.permutation(len(features.train_x) // 2 * 2)
    first, second = order.reshape(2, -1)
    coins = toss(len(first), draws)
    chosen = np.where(coins == 1, first, second)
    tests = np.array_split(np.arange(len(features.test_x)), parties)
    parts = [
        Split(
            train_x=features.train_x[own],
            train_y=features.train_y[own],
            test_x=features.test_x[test],
            test_y=features.test_y[test],
        )
        for own, test in zip(np.array_split(chosen, parties), tests, strict=True)
    ]

    def scores(model: Model) -> np.ndarray:
        def losses(rows: np.ndarray) -> np.ndarray:
            logits = logits_of(model, features.train_x[rows])
            targets = np.eye(logits.shape[1])[features.train_y[rows].astype(np.int64)]
            return np.asarray((np.logaddexp(0.0, logits) - targets * logits).sum(axis=1))

        return np.asarray(losses(second) - losses(first))

    absent = [np.zeros(len(part.train_x), dtype=bool) for part in parts]
    return Game(parts, coins, absent, scores)


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


def _settled(config: TrainConfig, features: int) -> TrainConfig:
    return config.resolved(find(config.backend).noise_failure(config, features))


def claimed(config: TrainConfig, features: int) -> float:
    """Returns the epsilon that a run with a target reports."""
    ledger, found = Ledger(), _settled(config, features)
    account_for_start(ledger, found)
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
    run = _settled(config, features)
    if fault != NO_FAULT:
        others = {name: by * getattr(run, name) for name, by in FAULTS[fault].items()}
        run = _settled(replace(run, settled=False, epsilon=None, **others), features)
    if game.of_opened:
        curious = _Curious()
        host = _Recording(
            run.frac_bits, parties=run.parties, owners=len(game.parts), source=curious
        )
        make_run(host, run, game.parts, lambda event: None, OPTIONS)
        opened = [words[0] - own for words, own in zip(host.opened, curious.own, strict=False)]
        return cast(Model, (run, opened))
    if any(own.any() for own in game.absent):
        return _released_with_null_records(run, game)
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        files = write_parts(game.parts, Path(folder))
        return _model(find_for(run).train(run, files, lambda event: None, OPTIONS))


class _Curious(SystemSource):
    """Draws, of which party 0 keeps its own: it takes them off what is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.own: list[Integers] = []

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        drawn = super().gaussian(party, scale, shape)
        if party == 0:
            self.own.append(drawn)
        return drawn


class _Recording(ClearHost):
    """Keeps what is opened."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.opened: list[Any] = []

    def open(self, summands: Sequence[Sequence[Integers]]) -> list[Integers]:
        found = super().open(summands)
        self.opened.append(found)
        return found


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
