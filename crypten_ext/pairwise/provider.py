"""CrypTen's tuple provider "PARTIES": the parties make what a dealer would deal."""

import torch

from crypten_ext.dealer.provider import AskingProvider
from crypten_ext.dealer.requests import Request
from crypten_ext.pairwise.maker import current


class PartiesProvider(AskingProvider):
    """Tuples of CrypTen's kinds and of ours (`extensions.ring.tuples.TupleSource`).

    Guarantees:
        What any n - 1 parties see that follow the protocol tells nothing of the masks but their own
        shares. Noise that no party knows there is none of: that takes a dealer.

    Cost:
        Rounds and bytes among the parties, of which neither counts as an opening's
        (`extensions.two_party.pairwise`); from the second step of a loop on, all at its beginning.
    """

    NAME = "PARTIES"

    def ask(self, request: Request) -> list[torch.Tensor]:
        """Returns this party's shares of one tuple."""
        return current().deal(request)

    def begin_step(self) -> None:
        """A step of a loop begins, at every party."""
        current().begin_step()
