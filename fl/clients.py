"""The interface of what clients do in a round, and the SGD of federated averaging."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from extensions.errors import ArgumentError
from extensions.rules import Between, Whole

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class ClientRound:
    """Tells a client's training which round it is, besides its records.

    Attributes:
        number: of the round, from 1.
        client: number of the client.
        seed: public; torch's default generator begins with it in each training.
        share: part of the run's clients that take part in a round.
        extra: tensors beside the model, by name: the mean of what clients returned of them last.
        state: what this client's training returned as its state last; empty before.

    Examples:
        >>> def train(model, records, round: fl.ClientRound):
        ...     with torch.no_grad():
        ...         model[1].bias += round.number
        >>> given = fl.ClientRound(number=3, client=7, seed=1)
        >>> train(model := fl.models.logistic(64), clients[0], given)
    """

    number: int
    client: int
    seed: int
    share: float = 1.0
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    state: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClientResult:
    """Holds what a client's training returns besides the model, which it trains in place.

    Attributes:
        metrics: numbers by name, of which the round's report has the mean; the training lists the
            names in its attribute `metrics`.
        extra: new values of tensors that the training's `extra(model)` states; their mean is what
            everybody has in the next round.
        state: tensors that this client keeps to itself until it is selected again.

    Examples:
        >>> result = fl.ClientResult(metrics={"loss": 0.25})
        >>> result.metrics["loss"]
        0.25
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    state: Mapping[str, Tensor] = field(default_factory=dict)


ClientTraining = Callable[[nn.Module, TensorDataset, ClientRound], ClientResult | None]
"""Trains the model in place on the client's records; raises UpdateError to withdraw.

It may move the model to another device. Its model is the one that the server sent in this round:
what the training is to stay close to, as in FedProx, it copies first.
"""


@dataclass(frozen=True, kw_only=True)
class LocalSGD:
    """ClientUpdate of federated averaging.

    Attributes:
        epochs: passes over the client's records.
        batch_size: records a step, the last of an epoch perhaps fewer; None: all in one step.
        lr: learning rate.
        loss: of outputs and labels.
        drop_last: whether that last step is left out, unless it is the only one.

    Source:
        McMahan et al., AISTATS 2017, Algorithm 1.
    """

    epochs: int
    batch_size: int | None
    lr: float
    loss: Loss
    drop_last: bool = False

    def __post_init__(self) -> None:
        Whole(1).check("local_epochs", self.epochs)
        if self.batch_size is not None:
            Whole(1).check("batch_size", self.batch_size)
        RATE.check("lr", self.lr)

    def step(self, records: int) -> int:
        """Returns how many of so many records are in a step, the last of an epoch left aside."""
        return min(records, self.batch_size or records)

    def fewest(self, records: int) -> int:
        """Returns how many of so many records are in the smallest step."""
        size = self.step(records)
        return size if self.drop_last else records % size or size

    def steps(self, records: int) -> int:
        """Returns how many steps so many records take."""
        size = self.step(records)
        return self.epochs * (records // size if self.drop_last else -(-records // size))

    def batches(self, records: int, generator: torch.Generator | None = None) -> Iterator[Tensor]:
        """Yields the places of each step's records among so many; an epoch's order is drawn anew.

        Args:
            records: their number.
            generator: draws the orders; None: torch's default one.
        """
        size = self.step(records)
        for _ in range(self.epochs):
            order = torch.arange(records)
            if size < records:
                order = torch.randperm(records, generator=generator)
            if self.drop_last:
                order = order[: records - records % size]
            yield from torch.split(order, size)

    def direction(self, gradient: Tensor, parameter: Tensor, start: Tensor) -> Tensor:
        """Returns what a step goes against; `start` is the parameter as the server sent it."""
        return gradient

    def __call__(
        self, model: nn.Module, records: TensorDataset, round: ClientRound
    ) -> ClientResult | None:
        """Trains the model in place."""
        # Not torch.optim.SGD: the first optimizer of a process imports torch's compiler, for 2 s.
        x, y = records.tensors
        model.train()
        parameters = list(model.parameters())
        starts = [parameter.detach().clone() for parameter in parameters]
        for batch in self.batches(len(x)):
            model.zero_grad()
            self.loss(model(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
            with torch.no_grad():
                for parameter, start in zip(parameters, starts, strict=True):
                    if parameter.grad is not None:
                        step = self.direction(parameter.grad, parameter, start)
                        parameter.add_(step, alpha=-self.lr)
        return None


RATE = Between(
    0.0,
    float(np.finfo(np.float32).max),
    above=True,
    words="positive, and finite in single precision",
)
"""What a learning rate must be."""


@contextmanager
def trainable(model: nn.Module, records: int) -> Iterator[None]:
    """Raises an ArgumentError in place of an error of the model or the loss in such a step."""
    try:
        yield
    except (RuntimeError, ValueError, IndexError) as error:
        allowed = f"a model that can train, with its loss, on a step of {records} records"
        hint = (
            f"{error} BatchNorm needs two records in every step: take GroupNorm, or another batch."
        )
        raise ArgumentError("model", type(model).__name__, allowed, hint) from error


def seed_generators(device: torch.device, seed: int) -> None:
    """Seeds torch's generators from which a training on this device draws, such as by dropout."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def training_seed(seed: int, number: int, client: int) -> int:
    """Returns the seed of one client's training in one round of a run."""
    state = np.random.SeedSequence([seed, number, client]).generate_state(1, np.uint64)
    return int(state[0]) >> 1


def described(training: ClientTraining) -> dict[str, Any]:
    """Returns what tells a client's training from others, JSON by name, as far as can be told."""
    name = qualified_name(training)
    if not is_dataclass(training) or isinstance(training, type):
        return {"train": name}
    values = {k: qualified_name(v) if callable(v) else v for k, v in asdict(training).items()}
    return {"train": name, **{f"train.{k}": v for k, v in values.items()}}


def qualified_name(value: Any) -> str:
    """Returns the name of a function or class, or of an object's class, with its module."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
