"""CrypTen's tuple provider "DEALER": nobody who holds data knows a tuple."""

from collections.abc import Sequence

import torch

from crypten_ext.dealer.asking import AskingProvider, Shape
from crypten_ext.dealer.client import current
from crypten_ext.dealer.requests import Request


class DealerProvider(AskingProvider):
    """Tuples of CrypTen's kinds and of ours (`extensions.ring.tuples.TupleSource`).

    Guarantees:
        Each party's shares are uniform to all others together, the dealer left out; the dealer sees
        shapes, never a value.

    Cost:
        No round among the parties; one word from the dealer to one party for each element that
        depends on others (a product, a wrap count, a shifted mask): of n parties each is sent an
        n-th of those of a tuple, within one word.
    """

    NAME = "DEALER"

    def ask(self, request: Request) -> list[torch.Tensor]:
        """Returns this party's shares of one tuple."""
        return current().deal(request)

    def begin_step(self) -> None:
        """A step of a loop begins, at every party."""
        current().begin_step()

    def deal_noise(self, scale: float, shapes: Sequence[Shape]) -> list[torch.Tensor]:
        """Returns this party's shares of discrete Gaussians that the dealer alone knows.

        Args:
            scale: standard deviation in ring units, at least
                `extensions.protocols.noise.LEAST_SCALE`, the same at every party.
            shapes: of the results.

        Guarantees:
            To all parties but one together they are uniform words. What is dealt again is the same
            noise; a tuple of another number, scale or shape has noise of its own.

        Cost:
            No round; 8 bytes a value, dealt to one of the parties. About 0.3 microseconds of the
            dealer's core each.

        Raises:
            DealerLostError: the dealer died, is late, or sent what cannot be used.
            MaterialError: other noise was prepared.
            PartyLostError: another party asked for other noise, or its scale cannot be drawn.
        """
        return self.ask(Request.of("noise", float(scale).hex(), [list(shape) for shape in shapes]))
