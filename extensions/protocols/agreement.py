"""What all parties must agree on before anything is shared, and who disagrees."""

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from extensions.errors import ArgumentError, PeaError

Words = Sequence[int]
Exchange = Callable[[Sequence[Words]], Sequence[Words]]
"""Takes the words of each party of this program, and returns those of all parties by rank.

All give equally many words of 64 bits; one round.
"""

_DIGEST_BYTES = 7
_NAMED = 12
"""Settings that an error names beside the first that differs."""
_SHOWN = 120
"""Characters that it shows of a value."""


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
        """Checks that no party refuses.

        Args:
            refusing: whether each party refuses, by rank, for a reason that it tells its own user.

        Raises:
            ArgumentError: one does; the first of them is named.
        """
        for rank, problem in enumerate(refusing):
            if problem:
                advice = f"{self.spared} The reason is in the output of party {rank}."
                raise ArgumentError(self.name, f"refused by party {rank}", self.allowed, advice)


RECORDS = Subject("records", "valid at every party", "Nothing was shared.")


def canonical(statement: object) -> bytes:
    """Returns a statement as parties compare it: one encoding for each value that JSON can hold.

    Keys are in order, there is no space, and a whole number is written alike whatever its type.

    Raises:
        ValueError: it holds a number that is not finite.
    """
    return json.dumps(
        _plain(statement), sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def comparable(settings: Mapping[str, Any]) -> dict[str, float | str | None]:
    """Returns settings that may be out of range as values that JSON can hold.

    What is no finite number goes as text, so that a party that refuses it can tell the others.
    """

    def own(value: Any) -> float | str | None:
        if isinstance(value, Real) and math.isfinite(value):
            return float(value)
        return None if value is None else str(value)

    return {name: own(value) for name, value in settings.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


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
        ArgumentError: everywhere, all settings that differ; a problem may come of that.
        PeaError: `problem`, where there is one.
        ArgumentError: elsewhere, who has one.
    """
    text = canonical(settings)
    digest = int.from_bytes(hashlib.sha256(text).digest()[:_DIGEST_BYTES], "big")
    everybody = exchange([[int(problem is not None), digest, *own] for own in facts])
    if len({row[1] for row in everybody}) > 1:
        texts = exchange_bytes(exchange, [text] * len(facts))
        check_equal([json.loads(each) for each in texts])
    if problem is not None:
        raise problem
    subject.check([row[0] for row in everybody])
    return [list(row[2:]) for row in everybody]


def check_equal(settings: Sequence[Mapping[str, Any]] | Mapping[int, Mapping[str, Any]]) -> None:
    """Checks that all parties have equal settings.

    Args:
        settings: of all parties, by rank; or of some, by their ranks.

    Raises:
        ArgumentError: every setting that differs, those that all have before those that some lack,
            with whose has which value.
    """
    if not isinstance(settings, Mapping):
        settings = dict(enumerate(settings))
    names = {name for own in settings.values() for name in own}
    by_all = set.intersection(*({*own} for own in settings.values()))
    ordered = [*sorted(by_all), *sorted(names - by_all)]
    differing = [(name, said) for name in ordered if (said := _difference(name, settings))]
    if not differing:
        return
    (name, said), *more = differing
    further = [f"{other} = {others}" for other, others in more[:_NAMED]]
    if len(more) > _NAMED:
        further.append(f"and {len(more) - _NAMED} others")
    advice = f"Nor are equal: {'; '.join(further)}." if further else ""
    raise ArgumentError(name, said, "equal at every party", advice)


class _Said(str):
    """Words that an error shows as they are."""

    def __repr__(self) -> str:
        return str(self)


def _difference(name: str, settings: Mapping[int, Mapping[str, Any]]) -> _Said:
    """Returns which parties have which value of a setting; nothing if all have the same."""
    groups: dict[bytes, tuple[str, list[int]]] = {}
    for rank, own in settings.items():
        key = canonical(own[name]) if name in own else b""
        shown = repr(own[name]) if name in own else "nothing"
        groups.setdefault(key, (shown, []))[1].append(rank)
    if len(groups) == 1:
        return _Said()
    return _Said(", ".join(f"{_cut(shown)} at {_whose(ranks)}" for shown, ranks in groups.values()))


def _whose(ranks: Sequence[int]) -> str:
    *before, last = map(str, ranks)
    return f"parties {', '.join(before)} and {last}" if before else f"party {last}"


def _cut(shown: str) -> str:
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."


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
