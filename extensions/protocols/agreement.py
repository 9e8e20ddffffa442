"""What all parties must agree on before anything is shared, and who disagrees."""

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

import extensions
from extensions.errors import ArgumentError, PeaError

Words = Sequence[int]
Exchange = Callable[[Sequence[Words]], Sequence[Words]]
"""Takes the words of each party of this program, and returns those of all parties by rank.

All give equally many words of 64 bits; one round.
"""

Value = str | int | float | bool | None

_MAGIC = b"pea manifest 1\n"
_LARGEST = 16 << 20
_DIGEST_BYTES = 7
_NAMED = 12
"""Settings that an error names beside the first that differs."""
_SHOWN = 120
"""Characters that it shows of a value."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """All that parties must have alike, as one of them states it: values by name, in one encoding.

    Attributes:
        run: what is equal whenever a run goes on.
        start: what is equal in one start or continuation.
    """

    run: Mapping[str, Value] = field(default_factory=dict)
    start: Mapping[str, Value] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of what is stated of the run, in hexadecimal digits: what it is known by."""
        return hashlib.sha256(_MAGIC + canonical(self.run)).hexdigest()

    @property
    def everything(self) -> dict[str, Value]:
        """All values by name."""
        return {**self.run, **self.start}

    @property
    def kept(self) -> dict[str, Any]:
        """What reports and models keep: the digest, and what is stated of the run."""
        return {"digest": self.digest, "run": dict(self.run)}

    def to_bytes(self) -> bytes:
        """Returns what another party reads."""
        return _MAGIC + canonical({"run": self.run, "start": self.start})

    @classmethod
    def from_bytes(cls, message: bytes, rank: int) -> "Statement":
        """Returns what `to_bytes` has written at this party.

        Raises:
            ArgumentError: it is no statement of this version.
        """
        try:
            if not message.startswith(_MAGIC) or len(message) > _LARGEST:
                raise ValueError("no statement")
            said = json.loads(message[len(_MAGIC) :])
            return cls(run=_checked(said["run"]), start=_checked(said["start"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            version, advice = extensions.__version__, "Install the same version at every party."
            given, allowed = f"unreadable at party {rank}", f"one of pea-mpl {version}"
            raise ArgumentError("manifest", given, allowed, advice) from None


def _checked(values: Any) -> dict[str, Value]:
    if not all(value is None or isinstance(value, str | int | float) for value in values.values()):
        raise ValueError("no statement")
    return dict(values)


NOTHING = Statement()
"""What parties state that have nothing to compare."""


@dataclass(frozen=True)
class Subject:
    """What parties agree on, as an error names it.

    Attributes:
        allowed: what every party must have of it.
        spared: what has not happened yet.
        code: of the error where their statements differ.
    """

    name: str
    allowed: str
    spared: str
    code: str = ""

    def check(self, refusing: Sequence[object]) -> None:
        """Checks that no party refuses.

        Args:
            refusing: whether each party refuses, by rank, for a reason that it tells its own user.
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


def comparable(settings: Mapping[str, Any]) -> Statement:
    """Returns a statement of settings that may be out of range.

    What is no finite number goes as text, so that a party that refuses it can tell the others.
    """

    def own(value: Any) -> float | str | None:
        if isinstance(value, Real) and math.isfinite(value):
            return float(value)
        return None if value is None else str(value)

    return Statement(run={name: own(value) for name, value in settings.items()})


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
    statement: Statement | None = NOTHING,
    problem: PeaError | None = None,
    subject: Subject = RECORDS,
) -> list[list[int]]:
    """Returns every party's facts, by rank, or fails in every party.

    Args:
        facts: public integers of each party of this program, equally many.
        statement: that must be equal everywhere; None: a problem keeps this program from one.
        problem: why this program must refuse, if it must.

    Cost:
        One round of two words and the facts; only where statements differ two more.

    Raises:
        ArgumentError: everywhere, all that differs in statements; a problem may come of that.
        PeaError: `problem`, where there is one.
        ArgumentError: elsewhere, who has one.
    """
    text = b"" if statement is None else statement.to_bytes()
    digest = int.from_bytes(hashlib.sha256(text).digest()[:_DIGEST_BYTES], "big") if text else 0
    everybody = exchange([[int(problem is not None), digest, *own] for own in facts])
    if len({row[1] for row in everybody} - {0}) > 1:
        texts = enumerate(exchange_bytes(exchange, [text] * len(facts)))
        said = {rank: Statement.from_bytes(each, rank) for rank, each in texts if each}
        check_equal(said, subject.code)
    if problem is not None:
        raise problem
    subject.check([row[0] for row in everybody])
    return [list(row[2:]) for row in everybody]


def check_equal(statements: Mapping[int, Statement], code: str = "") -> None:
    """Checks that some or all parties, by rank, state the same.

    Raises:
        ArgumentError: every name whose value differs, those that all have before those that some
            lack, with whose has which value.
    """
    settings = {rank: statements[rank].everything for rank in sorted(statements)}
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
    raise ArgumentError(name, said, "equal at every party", advice, code=code)


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

    Cost:
        One round of one word.
    """
    drawn = [[secrets.randbelow(1 << 63)] for _ in range(parties)]
    return [word for (word,) in exchange(drawn)]


def exchange_bytes(exchange: Exchange, messages: Sequence[bytes]) -> list[bytes]:
    """Returns the messages of all parties, by rank, whatever their lengths; two rounds."""
    lengths = [length for (length,) in exchange([[len(message)] for message in messages])]
    width = 8 * -(-max(lengths) // 8)
    words = [
        np.frombuffer(message.ljust(width, b"\0"), dtype=np.int64).tolist() for message in messages
    ]
    received = [np.array(row, dtype=np.int64).tobytes() for row in exchange(words)]
    return [message[:length] for message, length in zip(received, lengths, strict=True)]
