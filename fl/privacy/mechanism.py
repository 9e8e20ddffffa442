"""What is done to updates besides aggregating them: clipping, noise, and the account of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from fl.round.machines import Round, Vector

if TYPE_CHECKING:
    from extensions.privacy.accounting import Ledger
    from fl.privacy.ledgers import ClientLedgers

Exchange = Literal["delta", "weights"]


class Mechanism:
    """Leaves updates and their mean as they are; subclasses override what they change.

    It composes with every aggregator: clients transform their updates before the protocol, the
    server transforms the mean after it. Noise and secret selections come from the operating
    system's generator (`extensions.privacy.randomness`), where they are drawn.

    Attributes:
        ledger: of the privacy that was spent, saved with the run; None: nothing is claimed.
        extra_values: number of values that it appends to every update and takes off the mean.
        exchange: what it needs clients to exchange, "delta" or "weights"; None: either.
        equal_weights: whether it needs every client to count alike.
    """

    ledger: "Ledger | ClientLedgers | None" = None
    extra_values: int = 0
    exchange: Exchange | None = None
    equal_weights: bool = False

    def select(self, number: int, population: int, client_fraction: float) -> Sequence[int] | None:
        """Returns who takes part in round `number`, or None to leave that to the run's seed.

        Amplification by sampling needs a selection that no party can replay.
        """
        return None

    def charge(self, round: Round, population: int) -> None:
        """Enters a round into the ledger before anything of it is sent; a failed one stays in.

        Args:
            round: of those who were selected.
            population: number of clients from which they were.
        """

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        """Returns what a client takes part with, instead of its update.

        Args:
            update: what it trained, `extra_values` fewer than the round's size.
            round: of those who were selected.
            client: whose update it is.

        Raises:
            UpdateError: the client withdraws; the message gives none of its values.
        """
        return update

    def server(self, mean: Vector, round: Round, included: tuple[int, ...]) -> Vector:
        """Returns what the server takes for the mean of the updates of those included.

        Args:
            mean: what the aggregator gave, of the round's size.
            round: of those who were selected.
            included: those whose updates are in the mean.
        """
        return mean

    def parameters(self) -> dict[str, Any]:
        """Returns what it was made with, by name: a run that goes on must have the same."""
        return {}

    def state(self) -> str:
        """Returns, as text, what a run that goes on needs of it: the ledger."""
        return "" if self.ledger is None else self.ledger.to_json()

    def restore(self, state: str) -> None:
        """Goes on from what `state` returned.

        Raises:
            ArgumentError: the text is no such state.
        """
        if self.ledger is not None:
            self.ledger = self.ledger.from_json(state)
