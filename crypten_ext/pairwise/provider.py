"""CrypTen's tuple provider "PARTIES": the parties make what a dealer would deal."""

import torch

from crypten_ext.dealer.provider import AskingProvider
from crypten_ext.dealer.requests import Request
from crypten_ext.pairwise.maker import current


class PartiesProvider(AskingProvider):
    """Tuples of CrypTen's kinds and of ours (`extensions.ring.tuples.TupleSource`).

    Guarantees:
        What any n - 1 parties that follow the protocol see tells only their own shares of the
        masks. There is no noise that no party knows: that takes a dealer.

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
