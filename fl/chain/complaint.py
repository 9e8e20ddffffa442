"""What a party tells the server about a message that it refuses, or keeps for later."""

from dataclasses import dataclass

import numpy as np

from fl.chain.state import ChainState, Suspect
from fl.round.encoding import readable
from fl.round.machines import Machine
from fl.round.messages import SERVER, Message, Party


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """A message that was refused, or a token of an attempt that has not been announced yet.

    Attributes:
        culprit: who sent the message.
        reason: what is wrong with it.
        known: the last attempt that the complainant knows of.
        attempt: of the token; `known` if its tag was wrong.
        users: of the token; empty if its tag was wrong.
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
            reason=readable(self.reason),
            known=self.known,
            attempt=self.attempt,
            users=np.array(self.users, dtype=np.int64),
        )

    @classmethod
    def read(cls, message: Message) -> "Complaint":
        """Returns the complaint in a message; raises MessageError if there is none."""
        return cls(
            culprit=message.integer("culprit"),
            reason=message.text("reason", "no reason given"),
            known=message.integer("known"),
            attempt=message.integer("attempt"),
            users=message.clients("users"),
        )

    def judge(self, chain: ChainState, complainant: Party) -> Suspect | None:
        """Returns the client that is at fault, by what the server knows of the chain, or None.

        Nobody is at fault for a token of an attempt that exists and that its receiver had not heard
        of yet. What has no right tag is its sender's fault, in an earlier attempt only if it
        belongs to the last hop. A token with a right tag may have been forged by an earlier holder
        and passed on in good faith; in an earlier attempt, or through a client that is lost, that
        has been dealt with. Where reports agree with the token, its receiver had another one: the
        fault is of who gave it that, or of the sender if it has reported none.
        """
        sender = Suspect(self.culprit)
        if self.attempt > chain.attempt:
            return sender
        if self.attempt > self.known:
            return None
        if not self.users:
            hop = self.culprit in (chain.waiting, *chain.path[-1:]) and chain.waiting in (
                self.culprit,
                complainant,
            )
            return sender if hop or self.attempt == chain.attempt else None
        if self.attempt < chain.attempt or not chain.lost.isdisjoint(self.users):
            return None
        suspect = chain.find_suspect((*self.users, complainant), self.attempt)
        if suspect is None and complainant in chain.branches:
            other, _ = chain.branches[complainant]
            suspect = chain.find_suspect(other, self.attempt)
        return suspect or sender
