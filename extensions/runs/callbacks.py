"""Callbacks of a run that show its progress, or write checkpoints up to its result."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy.typing as npt

from extensions.errors import PeaError
from extensions.layers.passes import Parameters
from extensions.privacy.accounting import Ledger
from extensions.protocols import pea
from extensions.protocols.agreement import Statement
from extensions.protocols.host import (
    Carried,
    Host,
    Speed,
    StepForecast,
    Traffic,
    mean,
    named,
    unnamed,
)
from extensions.protocols.optimizer import State
from extensions.protocols.records import Records
from extensions.protocols.settings import Training
from extensions.protocols.step import Step
from extensions.ring.fixed_point import Integers
from extensions.runs.budget import Reservations
from extensions.runs.checkpoints import AllCheckpoints, PartyCheckpoints, claim_opening
from extensions.runs.config import TrainConfig
from extensions.runs.config.run_time import forecast_run
from extensions.runs.report import as_json

Progress = Callable[[dict[str, Any]], None]
Names = Sequence[str]
Words = Sequence[Sequence[Integers]]
Compute = Callable[[], Words]
Opened = Mapping[str, npt.NDArray[Any]]
_NOT_COUNTED = [-1, -1, -1, -1]
"""What a party says that cannot tell its bytes."""


class ProgressCallback(pea.RunCallbacks):
    """Shows progress, and keeps nothing.

    `progress` is called before the first step as step 0 with "ahead", what the run will take
    (`extensions.runs.config.run_time.RunForecast`), if that is known; and after each with "step",
    "steps", "rounds" and, as means of this program's parties, "bytes" and "padding" of them;
    "largest" is what the one of them sent and received that did most. Bytes are None where they are
    not counted.

    Attributes:
        manifest: of the run.
        entry: name of the run in the ledgers of its owners; empty if it cannot go on.
        budget: the run in these ledgers.
        sizes: number of records of each party, of persons where these may have several.
        phases: seconds, rounds and bytes of each part of the run that has ended; bytes are means of
            this program's parties, or None.
    """

    def __init__(
        self, host: Host, config: TrainConfig, manifest: Statement, progress: Progress
    ) -> None:
        super().__init__(host)
        self.manifest = manifest
        self.entry = secrets.token_hex(5)
        self.budget = Reservations()
        self.sizes: Sequence[int] = ()
        self._config = config
        self._progress = progress
        self._before, self._padding = Traffic(), 0.0
        self._began = self._marked = time.perf_counter()
        self._counted = Traffic()
        self.phases: list[dict[str, Any]] = []

    @property
    def kept(self) -> bool:
        """Whether there is something from which the run can go on."""
        return False

    def forecast(self, records: Records, held_out: int, step: Step | None) -> None:
        """Shows what the run will take, if its host can tell; whatever fails, the run goes on.

        Other programs' owners have as many held-out records as this one's.
        """
        self._end("agreement")
        config, owners = self._config, max(1, len(self._host.ranks))

        def tell(each: StepForecast, speed: Speed) -> None:
            left = len(self.steps(config))
            all_held_out = held_out * config.parties // owners
            begun = bool(self.sizes)
            run = forecast_run(config, records, all_held_out, each, speed, left, whitened=begun)
            self._show(0, Traffic(0, [Carried()]), ahead=run._asdict())

        with suppress(PeaError):
            self._host.forecast(config, records, step, tell)

    def begin(self, records: Records) -> None:
        """Takes note of the records, and of which part of the steps' rows is padding."""
        self.sizes = records.sizes
        self._before = self._host.traffic()
        self._padding = records.padding(self._config) if self._config.hidden else 0.0

    def _padded(self, traffic: Traffic) -> list[int]:
        """How many of each holder's bytes so far padding takes, in proportion to its rows.

        Two words a weight and step do not depend on the rows, and are divided like the others.
        """
        steps = traffic.plus(self._before, times=-1)
        return [round(one.bytes * self._padding) for one in steps.carried]

    def traffic(self) -> tuple[Traffic, int | None]:
        """Returns that of all parties so far, and the mean of what padding takes of it; one round.

        No bytes if a party cannot count them.
        """
        self._end("training")
        own = self._host.traffic()
        words = [[*one, part] for one, part in zip(own.carried, self._padded(own), strict=True)]
        everybody = self._host.exchange(words or [_NOT_COUNTED] * len(self._host.holders))
        if any([*row] == _NOT_COUNTED for row in everybody):
            return Traffic(own.rounds), None
        carried = [Carried(*row[:-1]) for row in everybody]
        return Traffic(own.rounds, carried), mean([row[-1] for row in everybody])

    def __call__(self, step: int, state: State, ledger: Ledger) -> None:
        """Shows that so many steps are made."""
        if not step:
            self._end("start")
        else:
            self._show(step, self._host.traffic())

    def end(self) -> float:
        """Ends the last phase; returns the seconds of the run in this program."""
        self._end("evaluation and opening")
        return self._marked - self._began

    def _end(self, phase: str) -> None:
        """Notes what was taken since the last phase ended."""
        now, traffic, before = time.perf_counter(), self._host.traffic(), self._counted
        self.phases.append(
            {
                "phase": phase,
                "seconds": round(now - self._marked, 3),
                "rounds": traffic.rounds - before.rounds,
                "bytes": None if traffic.mean is None else traffic.mean - (before.mean or 0),
            }
        )
        self._marked, self._counted = now, traffic

    def _show(self, step: int, traffic: Traffic, **more: Any) -> None:
        self._progress(
            {
                "step": step,
                "steps": self._config.steps,
                "rounds": traffic.rounds,
                "bytes": traffic.mean,
                "largest": traffic.largest,
                "padding": mean(self._padded(traffic)) if step else 0,
                **more,
            }
        )

    def keep(self, name: str, compute: Compute) -> Words:
        """Returns the holders' words; the run is spent."""
        words = compute()
        self.budget.spend()
        return words

    def release(self, names: Names, compute: Compute, model: Parameters, ledger: Ledger) -> Words:
        """Returns the holders' words of all that is to be opened; the run is spent."""
        words = compute()
        self.budget.spend()
        return words

    def complete(self, report: Mapping[str, Any], opened: Opened) -> None:
        """Takes note of what came of the run, and of what was opened."""

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return ()

    @property
    def released(self) -> list[tuple[str, str]]:
        """Names of the run and of its release, for each holder; empty where nothing is kept."""
        return [("", "") for _ in self._host.holders]


class DryRun(ProgressCallback):
    """Ends after a few steps of a run, which tell what all of them ask for."""

    def __init__(self, host: Host, config: TrainConfig, manifest: Statement, steps: int) -> None:
        super().__init__(host, config, manifest, lambda event: None)
        self._rehearsed = min(steps, config.steps)

    def steps(self, config: Training) -> range:
        """Returns the numbers of the first steps."""
        return range(1, self._rehearsed + 1)


class CheckpointCallback(ProgressCallback):
    """Shows progress, and writes checkpoints: shares of every holder that the program has."""

    def __init__(
        self,
        host: Host,
        config: TrainConfig,
        manifest: Statement,
        progress: Progress,
        parties: Sequence[PartyCheckpoints],
    ) -> None:
        super().__init__(host, config, manifest, progress)
        self._all = AllCheckpoints(parties, host.exchange, lambda: host.noise)
        self.entry = parties[0].entry
        self._made = 0
        self._opened: list[str] = []

    @property
    def kept(self) -> bool:
        """Whether there is something from which the run can go on."""
        return self._all.kept

    def resume(self) -> tuple[State, Ledger] | None:
        """Returns state and ledger of the newest checkpoint that all parties have; two rounds.

        Of a release the state is the trained model alone. What does not fit is refused in every
        party and before anything is shared.
        """
        bases = self._all.settle()
        if not bases:
            return None
        first = bases[0]
        self._made = first.step
        self._opened = [*first.optimizer["opened"]]
        parts = self._host.restore([unnamed(base.shares) for base in bases])
        state = State(parts) if first.recipients else State.of(parts, self._config)
        return state, Ledger.from_json(first.optimizer["ledger"])

    def steps(self, config: Training) -> range:
        """Returns the numbers of the steps that are left."""
        return range(self._made + 1, config.steps + 1)

    def __call__(self, step: int, state: State, ledger: Ledger) -> None:
        """Writes every holder's shares if a checkpoint is due, and shows progress."""

        def shares() -> list[dict[str, Integers]]:
            return [*map(named, self._host.summands(state.parts))]

        self._all.write(step, shares, lambda: self._state(ledger))
        super().__call__(step, state, ledger)

    def keep(self, name: str, compute: Compute) -> Words:
        """Returns the holders' words of a release on the way, once all have stored theirs.

        Words that all parties had stored before an interruption are returned again; others are
        computed. The run is spent. One round to agree that all have stored them. Raises PeaError
        if a party could not store its words, or lacks those of a release on which the model that
        the run resumes from depends; or another continuation has its own.
        """
        words: Words
        stored = [party.opening(name) for party in self._all.parties]
        found = [each for each in stored if each is not None]
        if found:
            if name not in self._opened:  # else the checkpoint's source stands further on
                self._all.draw_from(found[0])
            words = [[*each.outputs.values()] for each in found]
            self.budget.spend()
            for each in found:
                claim_opening(each)
        elif name in self._opened:
            raise PeaError(
                f"The run has opened {name!r} before this checkpoint, but a party has lost its "
                "part. Another opening would spend the budget again: put the files back."
            )
        else:
            words = compute()
            self.budget.spend()
            self._all.open(name, words)
        if name not in self._opened:
            self._opened.append(name)
        return words

    def release(self, names: Names, compute: Compute, model: Parameters, ledger: Ledger) -> Words:
        """Returns the words of the run's one release, which every party has stored and marked.

        Those of an interrupted release are returned as they were stored; nothing is computed. One
        round. Raises PeaError if another release is marked, or a party could not store this one.
        """
        if not self._all.outputs:
            outputs = [dict(zip(names, own, strict=True)) for own in compute()]
            shares = [*map(named, self._host.summands(model))]
            self._all.store(shares, outputs, self._state(ledger))
        self.budget.spend()
        for party in self._all.parties:
            party.mark()
        return [[outputs[name] for name in names] for outputs in self._all.outputs]

    def complete(self, report: Mapping[str, Any], opened: Opened) -> None:
        """Writes the result, and removes the holders' shares once all parties have it."""
        self._all.complete(as_json(report), opened)

    def _state(self, ledger: Ledger) -> dict[str, Any]:
        """What is kept beside shares."""
        return {"ledger": ledger.to_json(), "opened": self._opened}

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return self._all.resumed

    @property
    def released(self) -> list[tuple[str, str]]:
        """Names of the run and of the release that was marked, for each holder."""
        return [party.released for party in self._all.parties]
