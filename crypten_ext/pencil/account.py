"""What one model may cost a data owner's records, in their ledger, and how much of it is told.

The ledger is that of `pea budget`. Noise, sampling rate and the greatest number of steps are fixed
before the first step, and all of them are charged then. What a step tells the model's owner may
decide over whether, and with which weights, there is another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from crypten_ext.pencil.terms import Offer
from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger, check_target
from extensions.privacy.planning import Phase, Target, plan
from extensions.privacy.sampling import capacity
from extensions.protocols.settings import DELTA, TRAINING
from extensions.rules import PART, Whole, check_fields
from extensions.runs.budget import Account as AccountOfRecords
from extensions.runs.budget import Entry, Reservations, followed, read, update
from extensions.transport import Member

_OPENS = "noisy sums of gradients, to the model's owner"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a model may cost a record, and over how many steps.

    Attributes:
        epsilon: of everything that the model's owner learns of one record.
        delta: likewise; 1 / (10 records) is usual.
        steps: at most; the noise is made for so many.
        sample_rate: probability with which each record enters a step.

    Raises:
        ArgumentError: a value out of range.
    """

    epsilon: float
    delta: Annotated[float, DELTA]
    steps: Annotated[int, Whole(1)]
    sample_rate: Annotated[float, PART]

    def __post_init__(self) -> None:
        check_target(self.epsilon, advice="It would protect nothing.")
        check_fields(self)


class Account(Reservations):
    """One model's run in the ledger of a data owner's records.

    Its name follows from the model's owner, the budget and the number of records, so that a program
    that is started again goes on with it. Another budget is another run, which adds to the ledger.
    `owner` is None where nobody else learns from these records.

    Attributes:
        noise_multiplier: that keeps the budget over all steps.
        records: number of the data owner's.
        capacity: rows of a batch; more are drawn with a probability that delta has.

    Guarantees:
        Each step is charged, on disk, before anything of it is told. All programs that use one
        ledger at once together tell no more steps than the budget has.

    Raises ArgumentError if no noise keeps the budget.
    """

    def __init__(
        self, path: Path, budget: Budget, records: int, owner: Member | None = None
    ) -> None:
        self._path, self.budget, self.records = path, budget, records
        phase = Phase(
            noise_multiplier=0.0,  # follows from epsilon
            steps=budget.steps,
            sample_rate=budget.sample_rate,
            epsilon=budget.epsilon,
        )
        target = Target(delta=budget.delta, neighbours="add-remove", calibration="pld")
        (self.noise_multiplier,), overflow = plan((phase,), target)
        self.capacity = capacity(records, budget.sample_rate, overflow / budget.steps)
        ledger = Ledger()
        ledger.record(
            TRAINING,
            noise_multiplier=self.noise_multiplier,
            sample_rate=budget.sample_rate,
            steps=budget.steps,
            overflow_probability=overflow,
        )
        known = {"owner": owner.fingerprint if owner else "", "records": records}
        learner = f" with {owner.name}" if owner else ""
        title = f"pencil{learner}, {budget.steps} steps at most"
        entry = _entry(title, ledger, known | vars(budget))
        self._entry = replace(entry, delta=budget.delta)
        super().__init__([(path, self._entry)])

    @property
    def made(self) -> int:
        """Steps that were told, or are about to be."""
        found = read(self._path).find(self._entry.name)
        return 0 if found is None else found.told

    @property
    def left(self) -> int:
        """Steps that the budget still allows."""
        return self.budget.steps - self.made

    def offer(self, rows: int) -> Offer:
        """Returns what the model's owner is told of it, and of batches of so many rows."""
        return Offer(
            rows=rows,
            expected=self.budget.sample_rate * self.records,
            noise_multiplier=self.noise_multiplier,
            steps=self.left,
        )

    def charge(self) -> None:
        """Charges one more step, on disk, before anything of it is told.

        Raises ArgumentError if the budget is spent, or as `reserve`.
        """
        self.tell(self.budget.steps)

    def epsilon(self) -> float:
        """Returns what the run costs a record: all its steps, however many were told."""
        return self._entry.epsilon(self.budget.delta)


def enter_earlier(path: Path, earlier: Path) -> None:
    """Enters a ledger that an earlier version kept for one model in that of the records, once.

    Its run is spent with the steps that the file has, whatever the cap, and is not gone on with.

    Raises ArgumentError if it is no such file, or the ledger cannot be written.
    """
    try:
        text = earlier.read_text(encoding="utf-8")
        ledger = Ledger.from_json(json.dumps(json.loads(text)["ledger"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        allowed = "a file that an earlier version of `pea pencil data` kept"
        advice = "Or leave {ledger} out; runs are charged in the ledger of {records}."
        raise ArgumentError("ledger", str(earlier), allowed, advice) from error
    made = sum(getattr(phase, "steps", 0) for phase in ledger.phases)
    known = {"file": str(followed(earlier)), "text": text}
    entry = _entry("pencil, by an earlier version", ledger, known)
    entry = replace(entry, spent=True, told=made)

    def enter(account: AccountOfRecords) -> AccountOfRecords:
        if not made:
            return account
        after = replace(account, cap=None).with_entry(entry, str(path))
        return replace(after, cap=account.cap)

    update(path, enter)


def _entry(title: str, ledger: Ledger, known: Mapping[str, Any]) -> Entry:
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    return Entry(
        name=f"pencil-{digest[:10]}",
        title=title,
        ledger=ledger,
        exact=False,
        opens=(_OPENS,),
    )
