"""The interface of all aggregators: one machine a party, and a statement of who learns what."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import UpdateError
from extensions.printing import table
from extensions.rules import Whole
from fl.round.identities import Identities
from fl.round.machines import Machine, Round, Vector
from fl.round.messages import Message, Party, Value
from fl.round.quantization import FixedPoint
from fl.round.view import Coalition, Outcome

Leaks = frozenset[frozenset[int]]
"""Sets of clients; of each set the weighted sum of the updates is known exactly."""


class Aggregator(ABC):
    """Defines how a server gets the weighted mean of its clients' updates; a base class.

    An instance holds settings, and what a party keeps from round to round, such as keys; all that
    belongs to one round is in its machines. Machines learn of
    each other from messages only.

    Attributes:
        min_clients: fewest clients whose mean the protocol releases.
        fixed_point: how updates become integers; None: they stay floating-point.
        signs: whether clients sign messages with long-lived keys.
        between_clients: whether clients send each other messages.
        one_process: whether a client's machine has to stay in its process for a whole round.

    Examples:
        >>> issubclass(fl.MaskedAggregator, fl.protocols.Aggregator)
        True
        >>> fl.MaskedAggregator().min_clients
        2
    """

    min_clients: int = 2
    fixed_point: FixedPoint | None = None
    signs: bool = False
    between_clients: bool = False
    one_process: bool = False

    def __repr__(self) -> str:
        return table(type(self).__name__, [*_rows(self.parameters())])

    @property
    def hides_model(self) -> bool:
        """Whether clients alone have the model, and the server neither it nor a mean."""
        return False

    def session(
        self,
        round: Round,
        weights: npt.NDArray[np.float32],
        update: Callable[[int, npt.NDArray[np.float32]], Vector],
        *,
        timeout: float,
        training_seconds: float,
    ) -> Mapping[Party, Machine] | None:
        """Returns the machines of a whole round, where the protocol begins before training.

        None, as nearly always: the server sends the model in the clear, and the protocol begins
        with updates. Arguments are those of `fl.training.session.session_machines`.
        """
        return None

    @abstractmethod
    def server(self, round: Round) -> Machine:
        """Returns the server's machine, which yields an `Aggregate` in the end.

        It raises `self.failure(...)` if fewer than `min_clients` remain.
        """

    @abstractmethod
    def client(self, round: Round, client: int, update: Vector) -> Machine:
        """Returns the machine of a client whose update passed `check_update`."""

    def others(self, round: Round) -> Mapping[Party, Machine]:
        """Returns the machines of further parties, by numbers below that of the server.

        The parties are the same whichever of the selected clients take part.
        """
        return {}

    def identify(self, identities: Identities) -> None:
        """Takes the clients' long-lived keys from outside; a protocol without signatures has none.

        Called before the first round of a run whose parties are on hosts of their own.
        """
        return

    def parameters(self) -> dict[str, Any]:
        """Returns the arguments by which clients compute, or keep private what they do, JSON.

        All parties of a run must have the same, and so must a resumed run. What is the server's
        alone, such as how long it waits, is not among them.
        """
        grid = self.fixed_point
        fixed_point = None if grid is None else asdict(grid)
        return {"min_clients": self.min_clients, "fixed_point": fixed_point}

    def kept(self, client: int) -> dict[str, Value]:
        """Returns, by name, what a client keeps from round to round, such as a key; it is secret.

        Where every message is answered by a new process, `keep` takes it there.
        """
        return {}

    def keep(self, client: int, state: Message) -> None:
        """Goes on from what `kept` returned; raises MessageError if that is something else."""
        return

    def fewest(self, cohort: int) -> int:
        """Returns how many clients a round needs to begin, of a cohort that settings select."""
        return self.min_clients

    def honest(self, cohort: int) -> int:
        """Returns how many honest clients are in every sum that the server can learn, at least.

        0: the protocol promises none, or not against a server that lies.
        """
        return 0

    def siding(self, clients: int) -> int:
        """Returns how many of so many clients may side with the server, as the protocol is set."""
        return 0

    def check_round(self, round: Round) -> None:
        """Checks that a client may take part in the round as it is announced.

        Every client calls it, and holds the announcement against the run's plan, which it has from
        its own settings.

        Raises:
            ArgumentError: what `check_weights` refuses; fewer clients than `fewest`; clients that
                the run has not.
        """
        self.check_weights(round.weights.values())
        if round.plan is None:
            return
        Whole(self.fewest(round.plan.cohort)).check("clients of a round", len(round.weights))
        Whole(0, round.plan.population - 1).check("client", max(round.weights))

    def check_weights(self, weights: Collection[int]) -> None:
        """Checks that a round of clients with these weights is allowed and cannot overflow.

        Called when a run is made, with the largest weights, before every round is announced, and
        by every client that hears of one.

        Raises:
            ArgumentError: too few clients, or weights that could overflow.
        """
        hint = "A mean of fewer would reveal an update. Raise {client_fraction}."
        Whole(self.min_clients).check("clients of a round", len(weights), hint)
        if self.fixed_point is not None:
            self.fixed_point.check_weights(weights)

    def check_update(self, update: Vector, size: int) -> None:
        """Checks that a client may take part with this update; called by the client itself.

        Raises:
            UpdateError: it has another size, or values that are NaN, infinite or out of range.
        """
        check_update(update, size)
        if self.fixed_point is not None:
            self.fixed_point.check(update)

    @abstractmethod
    def leaks_to(self, coalition: Coalition, outcome: Outcome) -> Leaks:
        """Returns what the coalition computes from its view, beyond its members' own updates.

        It depends on how the round went: the outcome has orders, drop-outs and refusals. The mean
        counts as known to everybody, since the next model shows it: `inherent_leaks` is the least.
        """


def _rows(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[dict[str, Any]]:
    for name, value in parameters.items():
        if isinstance(value, dict):
            yield from _rows(value, f"{prefix}{name}.")
        else:
            yield {"argument": f"{prefix}{name}", "value": value}


def inherent_leaks(coalition: Coalition, included: Iterable[int]) -> Leaks:
    """Returns what every aggregator leaks: the sum of all others in the mean.

    Examples:
        >>> leaks = fl.protocols.inherent_leaks(fl.Coalition([0]), included=(0, 1, 2))
        >>> [sorted(clients) for clients in leaks]
        [[1, 2]]
    """
    others = frozenset(included) - coalition.clients
    return frozenset({others} if others else ())


def check_update(update: npt.NDArray[np.floating[Any]], size: int) -> None:
    """Raises UpdateError unless the update has the shape (size,) and finite values only.

    Examples:
        >>> fl.protocols.check_update(np.zeros(2), size=2)
    """
    if update.shape != (size,):
        raise UpdateError(f"an update of shape {update.shape}, not ({size},)")
    if not np.all(np.isfinite(update)):
        raise UpdateError("values of the update are NaN or infinite")
