"""The equations that a coalition can solve: what each sum that it saw is made of."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from extensions.errors import MessageError
from fl.chain.token import LEAD
from fl.round.determined import Unknown
from fl.round.messages import Message
from fl.round.view import Coalition, Transcript

Known = tuple[Unknown, ...]


def known_sums(transcript: Transcript, coalition: Coalition) -> Iterator[Known]:
    """Yields, for every sum in the coalition's view, its masks and the clients in it.

    A mask is named by its chain's number and its own. Who is in which sum is public. Malformed
    messages are left out.
    """
    held: dict[tuple[int, ...], Known] = {}
    merges: dict[int, Message] = {}
    for entry in transcript:
        message = entry.message
        with suppress(MessageError, LookupError):
            if message.kind == "held":
                place = (message.integer("chain"), message.integer("attempt"))
                holder = message.clients("users")[-1]
                held[(message.sender, *place, holder)] = names_of(message)
            elif message.kind == "merge":
                merges[message.receiver] = message
    for message in transcript.view(coalition):
        with suppress(MessageError, LookupError):
            if message.kind.removeprefix(LEAD) in ("token", "sum"):
                yield names_of(message)
            elif message.kind == "merged" and message.sender in merges:
                edge = message.sender
                sums = merges[edge].array("sums", np.int64, (-1, 3)).tolist()
                yield tuple(name for place in sums for name in held[(edge, *place)])


def names_of(message: Message) -> Known:
    """Returns the mask and the clients in the sum of a message, or raises MessageError."""
    mask = (message.integer("chain"), message.integer("mask"))
    return (mask, *message.clients("users"))
