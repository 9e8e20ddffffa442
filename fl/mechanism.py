"""What is done to updates besides aggregating them: clipping, noise, and the account of it."""

from typing import TYPE_CHECKING

from fl.protocol import Round, Vector

if TYPE_CHECKING:
    from extensions.accounting import Ledger


class Mechanism:
    """Leaves updates and their mean as they are; subclasses override what they change.

    It composes with every aggregator: clients transform their updates before the protocol, the
    server transforms the mean after it.

    Attributes:
        ledger: of the privacy that was spent; None: nothing is claimed.
        exchange: what it needs clients to exchange, "delta" or "weights"; None: either.
        equal_weights: whether it needs every client to count alike.
    """

    ledger: "Ledger | None" = None
    exchange: str | None = None
    equal_weights: bool = False

    def client(self, update: Vector, *, client: int, number: int) -> Vector:
        """Returns what the client takes part with, in round `number`, instead of its update.

        Noise comes from the operating system's generator (`extensions.randomness`), on the client.
        """
        return update

    def server(self, mean: Vector, *, round: Round, included: tuple[int, ...]) -> Vector:
        """Returns what the server adds to the model, instead of the mean of those included."""
        return mean

    def charge(self, *, round: Round, population: int) -> None:
        """Enters one round into the ledger, before anything of it is sent.

        A round that fails stays charged.

        Args:
            round: those who were selected.
            population: number of clients from which they were.
        """
