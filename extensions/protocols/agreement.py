"""What all parties must agree on before anything is shared, and who disagrees."""

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from extensions.errors import ArgumentError, PeaError

Words = Sequence[int]
Exchange = Callable[[Sequence[Words]], Sequence[Words]]
"""Takes the words of each party of this program, and returns those of all parties by rank.

All give equally many words of 64 bits; one round.
"""

_DIGEST_BYTES = 7


@dataclass(frozen=True)
class Subject:
    """What parties agree on, as an error names it.

    Attributes:
        name: of the argument.
        allowed: what every party must have of it.
        spared: what has not happened yet.
    """

    name: str
    allowed: str
    spared: str

    def check(self, refusing: Sequence[object]) -> None:
        """Returns only if no party refuses.

        Args:
            refusing: whether each party refuses, by rank, for a reason that it tells its own user.

        Raises:
            ArgumentError: one does; the first of them is named.
        """
        for rank, problem in enumerate(refusing):
            if problem:
                raise ArgumentError(
                    self.name,
                    f"refused by party {rank}",
                    self.allowed,
                    f"{self.spared} The reason is in the output of party {rank}.",
                )


RECORDS = Subject("records", "valid at every party", "Nothing was shared.")


def agree(
    exchange: Exchange,
    facts: Sequence[Words],
    settings: Mapping[str, Any],
    problem: PeaError | None = None,
    subject: Subject = RECORDS,
) -> list[list[int]]:
    """Returns every party's facts, by rank, or fails in every party.

    Args:
        exchange: how parties hear of each other.
        facts: public integers of each party of this program, equally many.
        settings: values that JSON can hold, and that must be equal everywhere.
        problem: why this program must refuse, if it must.
        subject: what it is about.

    Cost:
        One round of two words and the facts; only where settings differ two more.

    Raises:
        PeaError: `problem`, where there is one.
        ArgumentError: elsewhere, who has one; and everywhere the first setting that differs.
    """
    text = json.dumps(settings, sort_keys=True).encode()
    digest = int.from_bytes(hashlib.sha256(text).digest()[:_DIGEST_BYTES], "big")
    everybody = exchange([[int(problem is not None), digest, *own] for own in facts])
    if problem is not None:
        raise problem
    subject.check([row[0] for row in everybody])
    if len({row[1] for row in everybody}) > 1:
        texts = exchange_bytes(exchange, [text] * len(facts))
        check_equal([json.loads(each) for each in texts])
    return [list(row[2:]) for row in everybody]


def check_equal(settings: Sequence[Mapping[str, Any]]) -> None:
    """Returns only if all parties have equal settings.

    Args:
        settings: of each party, by rank.

    Raises:
        ArgumentError: the first name, in alphabetical order, of a setting that differs.
    """
    first = settings[0]
    for rank, others in enumerate(settings):
        for name in sorted({*others, *first}):
            here, there = first.get(name), others.get(name)
            if here != there:
                raise ArgumentError(
                    name,
                    f"{here!r} at party 0, {there!r} at party {rank}",
                    "equal at every party",
                )


def common_name(exchange: Exchange, parties: int) -> list[int]:
    """Returns a name that nothing else has: a random word of 63 bits of each party, by rank.

    Args:
        exchange: how parties hear of each other.
        parties: number of parties of this program.

    Cost:
        One round of one word.
    """
    drawn = [[secrets.randbelow(1 << 63)] for _ in range(parties)]
    return [word for (word,) in exchange(drawn)]


def exchange_bytes(exchange: Exchange, messages: Sequence[bytes]) -> list[bytes]:
    """Returns the messages of all parties, by rank, whatever their lengths; two rounds.

    Args:
        exchange: how parties hear of each other.
        messages: of each party of this program.
    """
    lengths = [length for (length,) in exchange([[len(message)] for message in messages])]
    width = 8 * -(-max(lengths) // 8)
    words = [
        np.frombuffer(message.ljust(width, b"\0"), dtype=np.int64).tolist() for message in messages
    ]
    received = [np.array(row, dtype=np.int64).tobytes() for row in exchange(words)]
    return [message[:length] for message, length in zip(received, lengths, strict=True)]
