"""What clients tell the server of their chain: that they handed the token on, or end the chain."""

from dataclasses import dataclass

from extensions.errors import MessageError
from fl.chain.ledger import Ledger
from fl.chain.token import Token, clients, integer
from fl.privacy.quantization import FixedPoint, RingVector
from fl.round.machines import Machine
from fl.round.messages import SERVER, Message, Party


@dataclass(frozen=True, kw_only=True, eq=False)
class Word:
    """Word of a token by its holder.

    Attributes:
        users: clients whose updates are in it, the holder last.
        attempt: of the token.
        receiver: who has it now; None where the holder found nobody for it.
        values: the masked sum, if the server has it now.
        returned: whether the sum is where it belongs, at the server or at an edge node.
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
        chain: Ledger,
        holder: Party,
        key: bytes,
        ring: FixedPoint,
    ) -> "Word":
        """Returns the word of a client of the chain.

        Args:
            message: its own, or that of an edge node that holds its sum.
            server: who reads it.
            chain: of the client.
            holder: the client.
            key: of its link to the server.
            ring: how updates become ring elements.

        Raises:
            MessageError: it is no word of a token that the chain could have.
        """
        if message.kind == "sum":
            token = Token.read(message, server, key, ring.dtype)
            if token.chain != chain.number or chain.collector != SERVER:
                raise MessageError("a sum of another chain, or for an edge node")
            word = cls(
                users=token.users,
                attempt=token.attempt,
                receiver=SERVER,
                values=token.values,
                returned=True,
            )
        elif message.kind == "held":
            if integer(message, "chain") != chain.number or chain.collector != message.sender:
                raise MessageError("a sum of another chain")
            word = cls(
                users=clients(message, "users"),
                attempt=integer(message, "attempt"),
                receiver=chain.collector,
                returned=True,
            )
        elif message.kind in ("passed", "stuck"):
            receiver = integer(message, "receiver") if message.kind == "passed" else None
            word = cls(
                users=clients(message, "users"),
                attempt=integer(message, "attempt"),
                receiver=receiver,
            )
        else:
            raise MessageError(f"a message of kind {message.kind!r}, which is no word of a token")
        if word.returned and len(word.users) < 2:
            raise MessageError("a sum of fewer than two clients")
        known = 0 <= word.attempt <= chain.attempt and set(word.users) <= set(chain.members)
        if word.users[-1:] != (holder,) or not known:
            raise MessageError("word of a token that the chain does not have")
        able = {*chain.members, chain.collector, None} - {*word.users, SERVER}
        if word.values is None and word.receiver not in able:
            raise MessageError(f"word of a token that cannot have gone to {word.receiver}")
        return word
