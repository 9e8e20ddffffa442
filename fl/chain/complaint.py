"""What a party of a chain tells the server of a message that it does not accept yet, or at all."""

from dataclasses import dataclass

import numpy as np

from fl.chain.ledger import Ledger
from fl.chain.token import clients, integer
from fl.round.machines import Machine
from fl.round.messages import SERVER, Message, Party


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """A message that was refused, or a token that is kept for the attempt that it is of.

    Attributes:
        culprit: who sent it.
        reason: what is wrong with it.
        known: the last attempt of which the complainant has heard.
        attempt: of the token; `known` if it had no right tag.
        users: of the token; none if it had no right tag.
    """

    culprit: Party
    reason: str
    known: int
    attempt: int
    users: tuple[int, ...] = ()

    def message(self, sender: Machine) -> Message:
        """Returns the complaint as a message to the server."""
        return sender.send(
            SERVER,
            "refused",
            culprit=self.culprit,
            reason=self.reason,
            known=self.known,
            attempt=self.attempt,
            users=np.array(self.users, dtype=np.int64),
        )

    @classmethod
    def read(cls, message: Message) -> "Complaint":
        """Returns the complaint in a message; raises MessageError if there is none."""
        return cls(
            culprit=integer(message, "culprit"),
            reason=str(message.body.get("reason", "no reason given")),
            known=integer(message, "known"),
            attempt=integer(message, "attempt"),
            users=clients(message, "users"),
        )

    def judged(self, chain: Ledger, complainant: Party) -> int | None:
        """Returns the client that is at fault by what the server knows; None: nobody may be.

        A token that is ahead of what its receiver had heard is right if there is such an attempt.
        Of an earlier attempt than the present one only the last hop matters. Else the sender is at
        fault, unless the token shows that one before it gave word of another.
        """
        if self.attempt > self.known and self.attempt <= chain.attempt:
            return None
        hop = self.culprit in (chain.waiting, *chain.path[-1:]) and chain.waiting in (
            self.culprit,
            complainant,
        )
        if self.attempt < chain.attempt and not hop:
            return None
        forked = chain.forked((*self.users, complainant), self.attempt) if self.users else None
        return self.culprit if forked is None else forked
