"""What clients report of their chain: that they handed the token on, or that the chain ends."""

from dataclasses import dataclass

from extensions.errors import MessageError
from fl.chain.state import ChainState
from fl.chain.token import Token
from fl.round.machines import Machine
from fl.round.messages import SERVER, Message, Party, party_name
from fl.round.quantization import FixedPoint, RingVector


@dataclass(frozen=True, kw_only=True, eq=False)
class HopReport:
    """The report of a token by its holder.

    Attributes:
        users: clients whose updates are in its sum, the holder last.
        attempt: of the token.
        receiver: who has the token now; None where the holder found nobody for it.
        values: the masked sum, if the server has it now.
        returned: whether the sum has reached its collector, the server or an edge node.
    """

    users: tuple[int, ...]
    attempt: int
    receiver: Party | None = None
    values: RingVector | None = None
    returned: bool = False

    @classmethod
    def read(
        cls,
        message: Message,
        server: Machine,
        chain: ChainState,
        holder: Party,
        key: bytes,
        ring: FixedPoint,
    ) -> "HopReport":
        """Returns the report of a client of the chain, sent by it or by the edge that has its sum.

        Raises MessageError if it is none, of another chain, or of a token that this one has not.
        """
        if message.kind == "sum":
            token = Token.read(message, server, key, ring.dtype)
            if token.chain != chain.number:
                raise MessageError(f"a sum of chain {token.chain}, not {chain.number}")
            if chain.collector != SERVER:
                raise MessageError("a sum for the server, which an edge node collects")
            report = cls(
                users=token.users,
                attempt=token.attempt,
                receiver=SERVER,
                values=token.values,
                returned=True,
            )
        elif message.kind == "held":
            if (given := message.integer("chain")) != chain.number:
                raise MessageError(f"a sum of chain {given}, not {chain.number}")
            if chain.collector != message.sender:
                raise MessageError("a sum at an edge node that does not collect this chain")
            report = cls(
                users=message.clients("users"),
                attempt=message.integer("attempt"),
                receiver=chain.collector,
                returned=True,
            )
        elif message.kind in ("passed", "stuck"):
            report = cls(
                users=message.clients("users"),
                attempt=message.integer("attempt"),
                receiver=message.integer("receiver") if message.kind == "passed" else None,
            )
        else:
            raise MessageError(f"a message of kind {message.kind!r}, which reports no token")
        report._check(chain, holder)
        return report

    def _check(self, chain: ChainState, holder: Party) -> None:
        """Checks that the chain can have such a token; raises MessageError if it cannot."""
        if self.users[-1:] != (holder,):
            raise MessageError(f"a report of users {self.users}, whose last is not its sender")
        if strangers := set(self.users) - set(chain.members):
            raise MessageError(f"a report of users {sorted(strangers)}, who are not in the chain")
        if not 0 <= self.attempt <= chain.attempt:
            raise MessageError(f"a report of attempt {self.attempt}, after {chain.attempt}")
        if self.returned:
            if len(self.users) < 2:
                raise MessageError("a sum of fewer than two clients")
            return
        able = {*chain.members, chain.collector} - {*self.users, SERVER}
        if self.receiver is not None and self.receiver not in able:
            raise MessageError(f"a report that the token went to {party_name(self.receiver)}")
