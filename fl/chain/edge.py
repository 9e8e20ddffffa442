"""An edge node: it adds the masked sums of its chains, so that the server sees the total alone."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from extensions.errors import MessageError
from fl.chain.complaint import Complaint
from fl.chain.token import Token, link_keys
from fl.round.machines import Machine, Output, Round, keep
from fl.round.messages import SERVER, Message, Party
from fl.round.quantization import RingVector


class ChainEdge(Machine):
    """The part of a party between chains and server."""

    def __init__(self, round: Round, party: Party, dtype: np.dtype[Any]) -> None:
        super().__init__(round, party)
        self._dtype = dtype
        self._early: list[Message] = []
        self._keys: dict[Party, bytes] | None = None
        self._sums: dict[tuple[int, int, Party], RingVector] = {}

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        kind = (message.sender == SERVER, message.kind)
        try:
            if kind == (True, "edge"):
                self._keys = dict(link_keys(message, "receiving"))
                waiting, self._early = self._early, []
                for early in waiting:
                    yield from self.receive(early, now)
            elif self._keys is None:
                keep(self._early, message)
            elif kind == (True, "merge"):
                total = np.zeros(self.round.size, dtype=self._dtype)
                for place in map(tuple, message.array("sums", np.int64, (-1, 3)).tolist()):
                    if place not in self._sums:
                        raise MessageError(f"the server asks for a sum {place} that is not here")
                    total += self._sums[place]
                yield self.send(SERVER, "merged", values=total)
            elif message.kind == "sum":
                yield self._hold(message, self._keys)
            else:
                raise MessageError(f"a message of kind {message.kind!r}, not a sum")
        except MessageError as error:
            complaint = Complaint(culprit=message.sender, reason=str(error), known=0, attempt=0)
            yield complaint.message(self)

    def _hold(self, message: Message, keys: dict[Party, bytes]) -> Message:
        token = Token.read(message, self, keys.get(message.sender), self._dtype)
        place = (token.chain, token.attempt, message.sender)
        if place in self._sums:
            reason = f"a second sum of attempt {token.attempt}"
            complaint = Complaint(
                culprit=message.sender,
                reason=reason,
                known=token.attempt,
                attempt=token.attempt,
                users=token.users,
            )
            return complaint.message(self)
        self._sums[place] = token.values
        users = np.array(token.users, dtype=np.int64)
        return self.send(
            SERVER,
            "held",
            chain=token.chain,
            mask=token.mask,
            attempt=token.attempt,
            users=users,
        )
