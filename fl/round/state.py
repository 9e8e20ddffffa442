"""A client's machine between two messages, as bytes that hold values and nothing that runs.

An engine that keeps no process between messages keeps these. They hold the client's secrets of the
round, so they never leave its host.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from extensions.errors import MessageError
from fl.round.machines import Machine
from fl.round.messages import Message, Value

VERSION = 1


def dump(machine: Machine) -> bytes:
    """Returns the state of a machine, as a message that the party sends itself."""
    return Message(
        round=machine.round.number,
        sender=machine.party,
        receiver=machine.party,
        kind=type(machine).__name__,
        body={"version": VERSION, **machine.state()},
    ).encode()


def load(machine: Machine, data: bytes) -> None:
    """Gives a machine, which was made with the same arguments, the state that was dumped.

    Raises MessageError if it is that of another kind of machine, party, round or version.
    """
    state = Message.decode(data)
    kept = (state.kind, state.sender, state.round, state.integer("version"))
    wanted = (type(machine).__name__, machine.party, machine.round.number, VERSION)
    if kept != wanted:
        raise MessageError(f"the state of {kept}, not of {wanted} (machine, party, round, version)")
    machine.restore(state)


def listed(messages: Iterable[Message]) -> list[Value]:
    """Returns messages as a value of a state."""
    return [message.encode() for message in messages]


def messages(state: Message, name: str) -> list[Message]:
    """Returns the messages of that name in a state; raises MessageError if there are none."""
    kept = state.body.get(name)
    if not isinstance(kept, list):
        raise MessageError(f"a state without messages {name!r}")
    return [Message.decode(each) for each in kept if isinstance(each, bytes)]


def octets(state: Message, name: str) -> bytes:
    """Returns the bytes of that name in a state; raises MessageError if there are none."""
    kept = state.body.get(name)
    if not isinstance(kept, bytes):
        raise MessageError(f"a state without bytes {name!r}")
    return kept


def texts(state: Message, name: str) -> list[str]:
    """Returns the texts of that name in a state; raises MessageError if there are none."""
    kept = state.body.get(name)
    if not isinstance(kept, list):
        raise MessageError(f"a state without texts {name!r}")
    return [each for each in kept if isinstance(each, str)]


def keyed(pairs: Mapping[int, bytes], name: str) -> dict[str, Value]:
    """Returns two values of a state: numbers, and bytes of one length for each."""
    numbers = np.array(list(pairs), dtype=np.int64)
    rows = np.frombuffer(b"".join(pairs.values()), dtype=np.uint8)
    return {name: numbers, f"{name} rows": rows.reshape(len(pairs), -1) if pairs else rows}


def keyed_of(state: Message, name: str) -> dict[int, bytes]:
    """Returns what `keyed` wrote under that name; raises MessageError if that is nothing."""
    numbers = state.array(name, np.int64, (-1,)).tolist()
    if not numbers:
        return {}
    rows = state.array(f"{name} rows", np.uint8, (len(numbers), -1))
    return {number: row.tobytes() for number, row in zip(numbers, rows, strict=True)}


def numbers(clients: Iterable[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Returns clients as a value of a state."""
    return np.array(list(clients), dtype=np.int64)
