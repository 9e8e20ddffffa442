"""What CrypTen parties do with batches in pieces."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from crypten_ext import in_pieces, nn
from crypten_ext.nn.batches import poisson_batches
from crypten_ext.processes.worker import Context
from extensions.privacy.randomness import InsecureSeededSource
from tests.helpers.party_tasks.protocols import Outcome, opened, outcome, session
from tests.helpers.programs.script import CLASSES, HIDDEN, RATE, WIDTH, dpsgd, records

import crypten
from crypten import communicator


class Script:
    """A model with a hidden layer that starts from given weights, and seeded batches."""

    def __init__(self, rows: int | None, steps: int = 2, **options: Any) -> None:
        layers = nn.Linear(WIDTH, HIDDEN), nn.Sigmoid(), nn.Linear(HIDDEN, CLASSES)
        self.model = crypten.nn.Sequential(*layers).encrypt()
        draws = np.random.default_rng(4)
        for parameter in self.model.parameters():
            values = draws.integers(-(2**20), 2**20, tuple(parameter.size()))
            own = values if communicator.get().get_rank() == 0 else 0 * values
            parameter.share = torch.from_numpy(own)
        source = InsecureSeededSource(3)
        self.optimizer = dpsgd(self.model, source=source, max_grad_norm=0.3, **options)
        settings = {"sample_rate": RATE, "steps": steps, "classes": CLASSES, "source": source}
        batches = poisson_batches(*records(10), **settings)
        self.batches = batches if rows is None else in_pieces(batches, rows)

    def backward(self, x: Any, y: Any) -> None:
        self.optimizer.zero_grad()
        nn.BCEWithLogitsLoss()(self.model(x), y).backward()

    def train(self) -> "Script":
        for x, y in self.batches:
            self.backward(x, y)
            self.optimizer.step()
        return self


def trained(context: Context) -> dict[str, Any]:
    """Returns models and ledgers of the same two steps, whole and in pieces."""
    found = {}
    with session():
        for name, rows in {"whole": None, "pieces": 3, "one piece": 1000}.items():
            script = Script(rows, momentum=0.5).train()
            found[name] = opened(script.model.parameters()), script.optimizer.ledger.to_json()
    return found


def left_out() -> None:
    script = Script(3)
    next(script.batches)
    script.backward(*next(script.batches))
    script.optimizer.step()


def left_in_the_middle() -> None:
    script = Script(12, steps=2)
    pieces = list(script.batches)
    script.backward(*pieces[0])
    script.optimizer.step()
    script.backward(*pieces[-2])
    script.optimizer.step()


def cut_otherwise() -> None:
    """The second piece of halves has rows of the first piece of the whole."""
    script = Script(None, steps=1)
    (whole,) = script.batches
    script.backward(*next(iter(in_pieces([whole], 12))))
    script.optimizer.step()
    script.backward(*list(in_pieces([whole], 3))[1])
    script.optimizer.step()


def used_whole_too() -> None:
    script = Script(None, steps=1)
    ((x, y),) = script.batches
    script.backward(x, y)
    script.optimizer.step()
    script.backward(*next(iter(in_pieces([(x, y)], 3))))
    script.optimizer.step()


def pieces_of_pieces() -> None:
    next(iter(in_pieces(Script(3).batches, 1)))


def targets_of_another_batch() -> None:
    (first, _), (_, other) = Script(None).batches
    next(iter(in_pieces([(first, other)], 3)))


def features_as_targets() -> None:
    ((x, _),) = Script(None, steps=1).batches
    next(iter(in_pieces([(x, x)], 3)))


def targets_as_features() -> None:
    ((x, y),) = Script(None, steps=1).batches
    next(iter(in_pieces([(y, x)], 3)))


def changed_between_pieces() -> None:
    ((x, y),) = Script(None, steps=1).batches
    pieces = in_pieces([(x, y)], 3)
    next(pieces)
    x.share.data.mul_(20)
    next(pieces)


def saved_in_the_middle() -> None:
    script = Script(3)
    script.backward(*next(script.batches))
    script.optimizer.step()
    script.optimizer.state_dict()


def no_rows() -> None:
    next(iter(in_pieces(Script(None).batches, 0)))


MISUSES: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        *(left_out, left_in_the_middle, cut_otherwise, used_whole_too, pieces_of_pieces),
        *(targets_of_another_batch, features_as_targets, targets_as_features),
        changed_between_pieces,
        *(saved_in_the_middle, no_rows),
    )
}


def misused(context: Context) -> dict[str, Outcome]:
    """Returns the outcome of each misuse."""
    with session():
        return {name: outcome(misuse) for name, misuse in MISUSES.items()}
