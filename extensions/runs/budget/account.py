"""What one data set was used for, what that costs a record, and how much it may."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from extensions.errors import ArgumentError
from extensions.privacy.accounting import FILTER, Ledger
from extensions.protocols.noisy_sums.counts import COUNTED
from extensions.rules import POSITIVE, Between

RECORD = "record"
"""The unit of a run without a schema that names persons."""

_FORMAT = 1
_DELTAS, _LOG, _MOST = "deltas", "log", "most_alignments"
"""Beside the entries, so that earlier versions read them."""


def now() -> str:
    """Returns the time, as ISO 8601 has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class Cap:
    """How much all runs on a data set may cost together.

    Attributes:
        epsilon: at most.
        delta: at which.
        except_held_out: whether it covers training alone, so that correct predictions on held-out
            records may be counted exactly.

    Raises:
        ArgumentError: an epsilon that is not positive, or a delta outside (0, 1).
    """

    epsilon: float
    delta: float
    except_held_out: bool = False

    def __post_init__(self) -> None:
        POSITIVE.check("cap", self.epsilon)
        advice = "1 / (10 records) is usual."
        Between(0, 1, above=True, below=True).check("delta", self.delta, advice)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One run.

    Attributes:
        name: random, by which its owner frees it.
        title: what ran.
        ledger: all that the run may cost a record.
        exact: whether the result depends on held-out records in a way that has no epsilon.
        opens: what it opens at its end.
        began: when it was entered, of `now`.
        unit: whose epsilon it is: a record's, or that of a person with several.
        spent: whether that was opened, or is about to be; else it is reserved.
        told: how many of its steps were told, or are about to be, of a run that tells one by one.
        delta: of its own epsilon; None where it has none, or an earlier version entered it.
        aligned: SHA-256 of the ids, of what is no run but an alignment with other owners' lists.
    """

    name: str
    title: str
    ledger: Ledger
    exact: bool
    opens: tuple[str, ...]
    began: str = field(default_factory=now)
    unit: str = RECORD
    spent: bool = False
    told: int = 0
    delta: float | None = None
    aligned: str = ""

    def epsilon(self, delta: float) -> float:
        """Returns what the run alone costs."""
        return _epsilon([self.ledger], delta, "pld")

    def parts(self, delta: float) -> tuple[float, float]:
        """Returns what training alone costs, and what counts of held-out records alone cost."""
        training, counts = (self.ledger.part(COUNTED, rest=rest) for rest in (True, False))
        return _epsilon([training], delta, "pld"), _epsilon([counts], delta, "pld")


class Event(NamedTuple):
    """When, of `now`, which user of the owner's host did what about which run; empty: the cap."""

    when: str
    user: str
    run: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Account:
    """All runs on one data set.

    Attributes:
        cap: what they may cost; None without one.
        entries: in the order in which they began.
        log: what was done, in turn; nothing of it is ever taken out.
        most_alignments: how many alignments there may be; None for any number.
    """

    cap: Cap | None = None
    entries: tuple[Entry, ...] = ()
    log: tuple[Event, ...] = ()
    most_alignments: int | None = None

    @property
    def unit(self) -> str:
        """Whose epsilon it is."""
        return self._runs[0].unit if self._runs else RECORD

    @property
    def _runs(self) -> list[Entry]:
        """What may cost something."""
        return [entry for entry in self.entries if not entry.aligned]

    def epsilon(self, delta: float) -> float:
        """Returns an upper bound of what all runs cost together; infinite if there is none."""
        total = self.counted(delta)
        return min(total, self._runs[0].epsilon(delta)) if len(self._runs) == 1 else total

    def counted(self, delta: float) -> float:
        """Returns what all runs count for a further one, which may depend on what they told.

        A privacy filter counts them, so that it may be more than `epsilon` of a single run.
        """
        return _epsilon([entry.ledger for entry in self.entries], delta, FILTER)

    @property
    def deltas(self) -> list[float]:
        """The deltas of the runs' own epsilons, each once, by size."""
        return sorted({entry.delta for entry in self.entries if entry.delta is not None})

    def find(self, name: str) -> Entry | None:
        """Returns the entry of that name."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def left(self) -> float | None:
        """Returns how much of the cap no run has taken, as a further run finds it; None without."""
        if self.cap is None:
            return None
        return max(0.0, self.cap.epsilon - self.counted(self.cap.delta))

    def with_entry(self, entry: Entry, where: str | Path) -> "Account":
        """Returns the account with one more run, or as it is if it has the run.

        Raises ArgumentError, which names `where` the ledger is, if earlier runs are about other
        units or the cap does not allow this one.
        """
        if before := self.find(entry.name):
            return self._changed(entry.name, lambda _: entry) if before.aligned else self
        after = replace(self, entries=(*self.entries, entry))
        if entry.aligned:
            self.check_alignments()
            return after
        if entry.unit != self.unit and self._runs:
            raise ArgumentError(
                "budget",
                f"a run for each {entry.unit}, after runs for each {self.unit} in {where}",
                "for the same unit in all runs",
                "Epsilons of different units cannot be added. Name the same unit in the schema, or "
                "give another ledger as {budget}.",
            )
        if self.cap is None:
            return after
        if entry.exact and not self.cap.except_held_out:
            raise ArgumentError(
                "evaluate",
                "an exact use of held-out records",
                f"'noisy' or 'none', because of the cap in {where}",
                "A count without noise has no epsilon, and neither has a start chosen by such "
                "counts. To cap training only, type `pea budget` with {except_held_out=True}.",
            )
        total = after.epsilon(self.cap.delta)
        if total > self.cap.epsilon:
            raise ArgumentError(
                "budget",
                f"epsilon {total:.4g} in {where} with this run, "
                f"{self.epsilon(self.cap.delta):.4g} without",
                f"at most {self.cap.epsilon:g} at delta = {self.cap.delta:g}, the cap",
                "`pea budget RECORDS` lists what is spent and reserved. Add noise, make fewer "
                "steps, free the reservation of a run that died, or set another cap.",
                code="range",
            )
        return after

    def check_alignments(self) -> None:
        """Raises ArgumentError if there may be no further alignment."""
        made, most = len(self.entries) - len(self._runs), self.most_alignments
        if most is not None and made >= most:
            rule = f"more than {made}, the number of alignments in the ledger"
            hint = "In each alignment, others may test whether you have persons whom they guess."
            raise ArgumentError("most_alignments", most, rule, hint, code="range")

    def without(self, name: str) -> "Account":
        """Returns the account without a reservation of that name, of which there must be one."""
        reserved = [entry.name for entry in self.entries if not entry.spent]
        if name not in reserved:
            allowed = f"one of the reservations {reserved}"
            raise ArgumentError("free", name, allowed, "Spent budget stays spent.", code="choice")
        left = tuple(entry for entry in self.entries if entry.name != name)
        return replace(self, entries=left)

    def spend(self, name: str) -> "Account":
        """Returns the account with a reserved run as one that is spent."""
        return self._changed(name, lambda entry: replace(entry, spent=True))

    def tell(self, name: str, most: int) -> "Account":
        """Returns the account in which a run tells one more step, of `most`; it is spent."""
        found = self.find(name)
        if found is not None and found.told >= most:
            allowed = f"at most {most}, and all of them are done"
            advice = "For more steps start another run; its cost adds to that of this one."
            raise ArgumentError("steps", most + 1, allowed, advice, code="range")
        return self._changed(name, lambda entry: replace(entry, spent=True, told=entry.told + 1))

    def opening(self, name: str, title: str) -> "Account":
        """Returns the account in which a run opens one more thing; its cost was counted before."""

        def open_(entry: Entry) -> Entry:
            return replace(entry, spent=True, opens=tuple(dict.fromkeys([*entry.opens, title])))

        return self._changed(name, open_)

    def _changed(self, name: str, change: Callable[[Entry], Entry]) -> "Account":
        entries = (change(entry) if entry.name == name else entry for entry in self.entries)
        return replace(self, entries=tuple(entries))

    def to_json(self) -> str:
        """Returns the account as JSON, from which `from_json` makes an equal one."""
        cap = None if self.cap is None else asdict(self.cap)
        deltas = {each.name: each.delta for each in self.entries if each.delta is not None}
        said: dict[str, Any] = {
            "format": _FORMAT,
            "cap": cap,
            "entries": [*map(_fields, self.entries)],
        }
        said |= {_DELTAS: deltas} if deltas else {}
        said |= {_LOG: self.log} if self.log else {}
        said |= {_MOST: self.most_alignments} if self.most_alignments is not None else {}
        return json.dumps(said, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> "Account":
        """Returns the account that `to_json` wrote; ArgumentError for any other text."""
        try:
            data: dict[str, Any] = json.loads(text)
            if data["format"] != _FORMAT:
                raise ValueError(f"its format is {data['format']!r}, not {_FORMAT}")
            deltas = data.get(_DELTAS, {})
            return cls(
                cap=None if data["cap"] is None else Cap(**data["cap"]),
                entries=tuple(_entry(each, deltas) for each in data["entries"]),
                log=tuple(Event(*each) for each in data.get(_LOG, ())),
                most_alignments=data.get(_MOST),
            )
        except (AttributeError, ValueError, TypeError, KeyError, RecursionError) as error:
            hint = f"{type(error).__name__}: {error}."
            raise ArgumentError("budget", "a damaged one", "as it was written", hint) from error


def _fields(entry: Entry) -> dict[str, Any]:
    """What a ledger says of a run; earlier versions read it, too, but for newer kinds of it."""
    fields = {**vars(entry), "ledger": json.loads(entry.ledger.to_json())}
    del fields["delta"]
    for name in ("told", "aligned"):
        if not fields[name]:
            del fields[name]
    return fields


def _entry(fields: dict[str, Any], deltas: dict[str, float]) -> Entry:
    ledger = Ledger.from_json(json.dumps(fields["ledger"]))
    delta = deltas.get(fields["name"])
    if delta is not None and not 0.0 < delta < 1.0:
        raise ValueError("a delta outside (0, 1)")
    return Entry(**{**fields, "ledger": ledger, "opens": tuple(fields["opens"]), "delta": delta})


def _epsilon(ledgers: Sequence[Ledger], delta: float, accountant: str) -> float:
    """What ledgers cost together; infinite where the accountant has no bound at that delta."""
    together = Ledger()
    for ledger in ledgers:
        together.add(ledger)
    try:
        return together.get_epsilon(delta, accountant)
    except ArgumentError:
        return math.inf
