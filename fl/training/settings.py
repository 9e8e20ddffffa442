"""The settings of a run of federated averaging."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from torch.nn.functional import cross_entropy

from extensions.checks import check_not_negative, check_positive
from extensions.errors import ArgumentError
from fl.privacy.mechanism import Exchange, Mechanism
from fl.round.aggregator import Aggregator
from fl.round.network import DropOut, Network
from fl.training.local_training import LocalSGD, Loss

Weighting = Literal["records", "equal"]
OnFailure = Literal["raise", "skip"]


def nobody(number: int) -> Sequence[DropOut]:
    """Returns that nobody vanishes in the round of that number."""
    return ()


@dataclass(kw_only=True, eq=False)
class RunSettings:
    """What a run is told besides its model and its clients.

    Attributes:
        aggregator: by which the server gets the mean of the updates. There is no default: the plain
            one is insecure, and asked for by name.
        client_fraction: share C of the clients that are selected for a round: the whole part of
            their number, at least one.
        local_epochs: E, passes of a client over its records in a round.
        batch_size: B, records a local step; None: all of a client's records in one step.
        lr: learning rate of the clients.
        mechanism: what is done to updates and to their mean.
        exchange: "delta": clients send what training changed. "weights": what it ended with.
        weighting: "records": clients weigh in the mean as many times as they have records.
            "equal": all alike.
        loss: of outputs and labels, a mean over the batch.
        network: delays and bandwidths, on a virtual clock.
        drop_outs: from the number of a round to who vanishes in it.
        training_seconds: that a client takes to train, on the virtual clock.
        timeout: seconds on that clock that clients have to receive the model and train.
        workers: processes that train clients side by side; more than one need a script whose main
            part stands under ``if __name__ == "__main__":``.
        on_failure: of a round: "raise" the error, or "skip" the round: the model stays as it is.
        seed: of selection, batches and dropout; public.
        facts: what else must be alike where a saved run goes on, such as its data; JSON by name.

    `sgd` is what a client does, made of these.

    Raises:
        ArgumentError: a setting outside its range, or two that do not go together.
    """

    aggregator: Aggregator
    client_fraction: float = 0.1
    local_epochs: int = 5
    batch_size: int | None = 10
    lr: float = 0.1
    mechanism: Mechanism = field(default_factory=Mechanism)
    exchange: Exchange = "delta"
    weighting: Weighting = "records"
    loss: Loss = cross_entropy
    network: Network = field(default_factory=Network)
    drop_outs: Callable[[int], Sequence[DropOut]] = nobody
    training_seconds: float = 0.0
    timeout: float = 600.0
    workers: int = 1
    on_failure: OnFailure = "raise"
    seed: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 < self.client_fraction <= 1.0:
            raise ArgumentError("client_fraction", self.client_fraction, "above 0, at most 1")
        for name, choices in (
            ("exchange", get_args(Exchange)),
            ("weighting", get_args(Weighting)),
            ("on_failure", get_args(OnFailure)),
        ):
            if getattr(self, name) not in choices:
                raise ArgumentError(name, getattr(self, name), f"one of {choices}")
        check_not_negative("training_seconds", self.training_seconds)
        check_positive("timeout", self.timeout)
        for name, least in (("seed", 0), ("workers", 1)):
            if getattr(self, name) < least:
                raise ArgumentError(name, getattr(self, name), f"at least {least}")
        if self.mechanism.exchange not in (None, self.exchange):
            allowed = f"{self.mechanism.exchange!r} with {type(self.mechanism).__name__}"
            raise ArgumentError("exchange", self.exchange, allowed)
        if self.mechanism.equal_weights and self.weighting != "equal":
            allowed = f"'equal' with {type(self.mechanism).__name__}"
            raise ArgumentError("weighting", self.weighting, allowed)
        self.sgd = LocalSGD(
            epochs=self.local_epochs, batch_size=self.batch_size, lr=self.lr, loss=self.loss
        )

    def selected(self, population: int) -> int:
        """Returns how many of so many clients take part in a round."""
        return max(1, math.floor(self.client_fraction * population + 1e-9))
