"""The interface of mechanisms, which change updates and their mean, and keep the ledger."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from extensions.privacy.accounting import Ledger
from fl.clients import ClientTraining
from fl.privacy.ledgers import ClientLedgers
from fl.round.aggregator import Aggregator
from fl.round.choices import Exchange
from fl.round.machines import Round, Vector


class Mechanism:
    """Changes updates and their mean; this base class leaves them as they are.

    It composes with every aggregator: clients transform their updates before the protocol, the
    server transforms the mean after it. Noise and secret selections come from the operating
    system's generator (`extensions.privacy.randomness`), where they are drawn.

    Attributes:
        ledger: of the privacy spent, saved with the run; None if it gives none.
        extra_values: number of values that it appends to every update and takes off the mean.
        exchange: what it needs clients to exchange, "delta" or "weights"; None: either.
        equal_weights: whether it needs every client to count alike.
        parameters_only: whether it is for parameters only, without running statistics.
        hides_updates: whether the ledger bounds all that a client's messages reveal of its update.
            A training that fails, or ends in NaN or infinity, then counts as zeros, because a
            withdrawal would reveal it; and records stay unread beforehand.
        training: what clients do, where it is part of the mechanism; None: as the run says.

    Examples:
        >>> class Halved(fl.protocols.Mechanism):
        ...     def server(self, mean, round, included):
        ...         return mean / 2
        >>> run = fl.FederatedAveraging(
        ...     **setup, aggregator=fl.PlainAggregator(), mechanism=Halved()
        ... )
        >>> run.fit(rounds=1, test_set=test).accuracy > 0.1
        True
    """

    ledger: Ledger | ClientLedgers | None = None
    extra_values: int = 0
    exchange: Exchange | None = None
    equal_weights: bool = False
    parameters_only: bool = False
    hides_updates: bool = False
    training: ClientTraining | None = None

    def select(self, number: int, population: int, client_fraction: float) -> Sequence[int] | None:
        """Returns who takes part in round `number`, or None to leave that to the run's seed.

        Amplification by sampling needs a selection that no party can replay.
        """
        return None

    def check_aggregator(self, aggregator: Aggregator, size: int, cohort: int) -> None:
        """Checks that the aggregator can carry what clients send, as this mechanism needs it.

        Called when a run is made.

        Args:
            aggregator: of the run.
            size: number of values of an update.
            cohort: clients that are selected for a round, at least.

        Raises:
            ArgumentError: it cannot; says what would.
        """

    def check_records(self, model: nn.Module, x: Tensor, y: Tensor) -> None:
        """Checks that clients can train such records as this mechanism needs it.

        Called when a run is made, or a client of it, with the model before any training.

        Args:
            model: it stays as it is.
            x: records of a client, of which shape and type alone may count.
            y: its labels, likewise.

        Raises:
            ArgumentError: they cannot.
        """

    def cohort(self, selected: int) -> int:
        """Returns how many clients every round has at least, where settings select so many."""
        return selected

    def announced(self) -> dict[str, Any]:
        """Returns what clients use that changes from round to round, JSON by name; public."""
        return {}

    def tells(self, client: int) -> dict[str, Any]:
        """Returns what the server tells a client on another host with the model, JSON by name."""
        return self.announced()

    def hear(self, client: int, told: Mapping[str, Any]) -> None:
        """Takes note, in a client's own object, of what the server's `tells`.

        Raises:
            ArgumentError: it is nothing that a server may tell.
        """

    def charge(self, round: Round, population: int) -> None:
        """Records a round in the ledger before any of it is sent; a failed round stays recorded.

        Args:
            round: of those who were selected.
            population: number of clients from which they were.
        """

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        """Returns what the client sends in place of its update.

        Args:
            update: what it trained, `extra_values` fewer than the round's size.
            round: of those who were selected.
            client: whose update it is.

        Raises:
            UpdateError: the client withdraws; the message shows none of its values.
        """
        return update

    def server(self, mean: Vector, round: Round, included: tuple[int, ...]) -> Vector:
        """Returns what the server uses in place of the mean.

        Args:
            mean: what the aggregator gave, of the round's size.
            round: of those who were selected.
            included: clients whose updates are in the mean.
        """
        return mean

    def parameters(self) -> dict[str, Any]:
        """Returns the arguments that it was made with: a resumed run must have the same."""
        return {}

    def state(self) -> str:
        """Returns, as text, what a resumed run needs of it: the ledger."""
        return "" if self.ledger is None else self.ledger.to_json()

    def restore(self, state: str) -> None:
        """Goes on from what `state` returned.

        Raises:
            ArgumentError: the text is no such state.
        """
        if self.ledger is not None:
            self.ledger = self.ledger.from_json(state)
