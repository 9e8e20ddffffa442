"""Games that a released model can be attacked in: coins decide which records it is trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from extensions.owners.data import Split
from extensions.ring.fixed_point import Reals

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
    """

    parts: Sequence[Split]
    coins: np.ndarray
    absent: Sequence[np.ndarray]
    scores: Callable[[Model], np.ndarray]


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
    parts, kept = [], []
    for own in np.array_split(np.arange(count), parties):
        held_out = own[:1]
        parts.append(
            Split(
                train_x=features[own],
                train_y=labels[own],
                test_x=features[held_out],
                test_y=labels[held_out],
            )
        )
        kept.append(absent[own])

    def scores(model: Model) -> np.ndarray:
        ((weight, _),) = model
        return np.asarray(signs * (weight[1] - weight[0]))

    return Game(parts, coins, kept, scores)


def natural(features: Split, parties: int, draws: np.random.Generator) -> Game:
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
        ((weight, bias),) = model

        def losses(rows: np.ndarray) -> np.ndarray:
            logits = features.train_x[rows] @ weight.T + bias
            targets = np.eye(len(bias))[features.train_y[rows].astype(np.int64)]
            return np.asarray((np.logaddexp(0.0, logits) - targets * logits).sum(axis=1))

        return np.asarray(losses(second) - losses(first))

    absent = [np.zeros(len(part.train_x), dtype=bool) for part in parts]
    return Game(parts, coins, absent, scores)
