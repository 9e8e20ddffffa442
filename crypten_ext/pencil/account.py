"""A data owner's account with one model: what it may cost its records, and what it cost so far.

Noise, sampling rate and the greatest number of steps are fixed before the first step. What a step
tells the model's owner may then decide over whether, and with which weights, there is another one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from crypten_ext.pencil.terms import Offer
from extensions import durable
from extensions.checks import check_positive
from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.privacy.planning import Phase, Target, plan
from extensions.privacy.sampling import capacity, check_sample_rate
from extensions.protocols.settings import TRAINING

_FORMAT = 1


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
    delta: float
    steps: int
    sample_rate: float

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if not 0.0 < self.delta < 1.0:
            raise ArgumentError("delta", self.delta, "in (0, 1)", "1 / (10 records) is usual.")
        if self.steps < 1:
            raise ArgumentError("steps", self.steps, "at least 1")
        check_sample_rate(self.sample_rate)


class Account:
    """The account in a file of the data owner's.

    Args:
        path: of the file; a new one is made.
        budget: that it was made for, or is made for now.
        records: number of the owner's.

    Attributes:
        noise_multiplier: that keeps the budget over all steps.
        records: number of the owner's.
        capacity: rows of a batch: more are drawn with a probability that delta has.

    Raises:
        ArgumentError: no noise keeps the budget; the file is damaged, or for another budget.
    """

    def __init__(self, path: Path, budget: Budget, records: int) -> None:
        self._path, self.budget = path, budget
        phase = Phase(steps=budget.steps, sample_rate=budget.sample_rate, epsilon=budget.epsilon)
        target = Target(delta=budget.delta, neighbours="add-remove", calibration="pld")
        (self.noise_multiplier,), self._overflow = plan((phase,), target)
        self.capacity = capacity(records, budget.sample_rate, self._overflow / budget.steps)
        self.records = records
        self._stated = {**vars(budget), "records": records}
        self.ledger = self._read()

    @property
    def made(self) -> int:
        """Steps that were charged."""
        return sum(getattr(phase, "steps", 0) for phase in self.ledger.phases)

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
        """One more step is charged, on disk, before anything of it is told.

        Raises:
            ArgumentError: the budget is spent.
        """
        if self.left < 1:
            spent = self.budget.steps
            allowed = f"at most {spent}, after which the budget of {self._path} is spent"
            raise ArgumentError("steps", spent + 1, allowed)
        self.ledger.record(
            TRAINING,
            noise_multiplier=self.noise_multiplier,
            sample_rate=self.budget.sample_rate,
            steps=1,
            overflow_probability=self._overflow / self.budget.steps,
        )
        self._write()

    def epsilon(self) -> float:
        """Returns what the steps so far cost a record."""
        return self.ledger.get_epsilon(self.budget.delta)

    def _read(self) -> Ledger:
        try:
            found = json.loads(self._path.read_text())
            stated, ledger = found["budget"], Ledger.from_json(json.dumps(found["ledger"]))
            known = found["format"] == _FORMAT
        except FileNotFoundError:
            return Ledger()
        except (OSError, ValueError, TypeError, KeyError) as error:
            advice = "Restore it from a backup: what it said was spent."
            raise ArgumentError("ledger", str(self._path), "an undamaged one", advice) from error
        if not known or stated != self._stated:
            raise ArgumentError(
                "ledger",
                str(self._path),
                f"of the budget that is given, {self._stated}, not {stated}",
                "Noise and steps are fixed before the first one. Give the budget that it has.",
            )
        return ledger

    def _write(self) -> None:
        said = {
            "format": _FORMAT,
            "budget": self._stated,
            "ledger": json.loads(self.ledger.to_json()),
        }
        with durable.write(self._path) as file:
            file.write((json.dumps(said, indent=2) + "\n").encode())
