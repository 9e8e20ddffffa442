"""Requests of the server to a client's host, and its answers: messages with messages in them.

| kind | from | holds |
| --- | --- | --- |
| hello | server | challenge: 32 random bytes |
| hello | client | records: how many; signature under challenge and node, where clients have keys |
| work | server | now: its clock; told: what mechanism and settings are; messages; keys of links |
| work | client | messages; link: its key; left: why it leaves the round, or nothing |
"""

from collections.abc import Iterable

from extensions.errors import MessageError
from fl.round.messages import Message, Party, Value

CHALLENGE_BYTES = 32
HELLO, WORK = "hello", "work"


def envelope(number: int, sender: Party, receiver: Party, kind: str, /, **body: Value) -> bytes:
    """Returns a request or an answer of a round, as bytes."""
    return Message(round=number, sender=sender, receiver=receiver, kind=kind, body=body).encode()


def packed(messages: Iterable[bytes]) -> list[Value]:
    """Returns encoded messages as a value."""
    return list(messages)


def unpacked(message: Message) -> list[bytes]:
    """Returns the encoded messages in a request or an answer, or raises MessageError."""
    kept = message.body.get("messages")
    if not isinstance(kept, list) or not all(isinstance(each, bytes) for each in kept):
        raise MessageError(f"{message.kind!r} holds no messages")
    return [each for each in kept if isinstance(each, bytes)]


def signed(challenge: bytes, node: int) -> bytes:
    """Returns what a client signs to show that its part runs on a node."""
    return b"node" + challenge + str(node).encode()
