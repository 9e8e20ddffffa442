"""SignDS: a client sends a random sign and a few dimensions, privately selected."""

import secrets
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from extensions.errors import ArgumentError
from extensions.rules import POSITIVE, Between, Whole, check_fields
from fl.privacy.dimension_selection import DimensionSelection, select
from fl.privacy.ledgers import ClientLedgers
from fl.privacy.mechanism import Mechanism
from fl.round.machines import Round, Vector


@dataclass(kw_only=True, eq=False, repr=False)
class SignDS(Mechanism):
    """Replaces an update by signs in a few selected dimensions, and by 0 in all others.

    The sign is a fair coin. With + the top k are the largest values of the update, with - the
    smallest, and the dimensions are selected so that most are likely among them
    (`DimensionSelection`).

    Guarantees:
        One update is sign_eps-differentially private for any two updates that the client could
        have, with delta 0, exactly: the sign does not depend on the update, and given the sign no
        selection is more than e^sign_eps times as likely with one update as with another. The
        client need trust nobody else. `ledger.of(k)` adds up the rounds in which client k was
        selected. All randomness comes from the operating system's generator, through integers. An
        update that training leaves NaN or infinite, or a training that raises an error, counts as
        zeros; one that raises `UpdateError` withdraws the client, which is public.

    Edge cases:
        Where too few dimensions reach `sign_thr_ratio`, one is selected.

    Cost:
        With `PlainAggregator` 8 bytes a dimension that is selected, in place of 4 a parameter. The
        others save 0 bytes, because their sums must hide from the server which these are.

    Args:
        sign_k: share of the dimensions that are the top k, in (0, 0.25]; their number is rounded
            down and must be at least 1. More than 50 are advised.
        sign_eps: epsilon of one update, in (0, 100].
        sign_thr_ratio: least share of the top k among those selected, on average, in [0.5, 1].
        sign_global_lr: the constant that is sent for a selected dimension, above 0.
        sign_dim_out: dimensions to select, in 0..50; 0: as many as keep sign_thr_ratio.

    Raises:
        ArgumentError: an argument outside its range; before a round, one that does not fit the size
            of the model.

    Source:
        Jiang, Zhou and Grossklags, ACM TIST 2022; names, ranges and defaults of parameters are
        those of MindSpore Federated.

    Examples:
        >>> signs = fl.SignDS(sign_k=0.1, sign_eps=10.0)
        >>> run = fl.FederatedAveraging(**setup, aggregator=fl.PlainAggregator(), mechanism=signs)
        >>> run.fit(rounds=1)[0].bytes_up < 3000
        True
    """

    exchange = "delta"
    parameters_only = True
    hides_updates = True
    equal_weights = True
    sign_k: Annotated[float, Between(0.0, 0.25, above=True)] = 0.01
    sign_eps: Annotated[float, Between(0.0, 100.0, above=True)] = 100.0
    sign_thr_ratio: Annotated[float, Between(0.5, 1.0)] = 0.6
    sign_global_lr: Annotated[float, POSITIVE] = 1.0
    sign_dim_out: Annotated[int, Whole(0, 50)] = 0
    ledger: ClientLedgers = field(default_factory=ClientLedgers, init=False)

    def __post_init__(self) -> None:
        check_fields(self)

    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name.startswith("sign_")}

    def selection(self, size: int) -> DimensionSelection:
        """Returns how dimensions are selected from an update of that size.

        Raises:
            ArgumentError: sign_k or sign_dim_out does not fit it.
        """
        top = int(self.sign_k * size)
        if top < 1:
            rule = f"at least {1.005 / size:.3g}, for one of {size} dimensions"
            raise ArgumentError("sign_k", self.sign_k, rule, code="range")
        return select(size, top, self.sign_eps, self.sign_thr_ratio, self.sign_dim_out)

    def charge(self, round: Round, population: int) -> None:
        self.selection(round.size)
        for client in round.clients:
            self.ledger.of(client).charge("update", epsilon=self.sign_eps, delta=0.0)

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        law = self.selection(update.size)
        sign = secrets.choice((-1.0, 1.0))
        order = np.argpartition(-sign * update, law.top - 1)
        top, rest = order[: law.top].tolist(), order[law.top :].tolist()
        nu = law.draw()
        draws = secrets.SystemRandom()
        result = np.zeros(update.size)
        result[draws.sample(top, nu) + draws.sample(rest, law.selected - nu)] = (
            sign * self.sign_global_lr
        )
        return result
