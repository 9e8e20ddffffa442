"""Federated averaging: rounds of local training and aggregation."""

import copy
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import nn

from extensions.errors import ArgumentError, RoundError, UpdateError
from fl.clients import ClientRound, training_seed
from fl.round.aggregator import check_update
from fl.round.machines import Round, Vector
from fl.round.messages import SERVER
from fl.round.transport import InProcessTransport
from fl.round.view import Outcome
from fl.training.callbacks import Callback
from fl.training.callbacks.console import progress as progress_bar
from fl.training.checkpoint import Checkpoint
from fl.training.data import Records
from fl.training.evaluation import Tests
from fl.training.history import History, RoundReport
from fl.training.inputs import checked_records
from fl.training.optimizers import State, apply
from fl.training.session import session_machines
from fl.training.settings import RunSettings
from fl.training.weights import (
    Weights,
    get_weights,
    next_weights,
    of_parameters,
    set_weights,
)
from fl.training.workers import Trainer


@dataclass(kw_only=True, eq=False, repr=False)
class FederatedAveraging(RunSettings):
    """A run of federated averaging over simulated clients, which send real messages.

    In every round the server sends the model to some clients, each trains it on its own records,
    and the aggregator takes the weighted mean of their updates to the server.

    Guarantees:
        With the same seed, model and clients two runs are equal, whatever the number of workers,
        and so is a run that was saved and loaded in between; unless a mechanism draws noise, which
        no seed controls. What aggregators mask, they draw from the operating system.

    Args:
        model: the model to start from, in single precision; it is copied, and then the present one.
        clients: the records of each client, by its number.
        rounds: of the whole run, including those before it was saved; None: give them to `fit`.

    Attributes:
        history: of all rounds so far.
        outcome: of the last round that succeeded, with the messages that are kept; None before.

    Raises:
        ArgumentError: an argument outside its range, or rounds that the aggregator would refuse.

    Source:
        McMahan et al., AISTATS 2017, Algorithm 1.
    """

    model: nn.Module
    clients: Sequence[Records]
    rounds: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds is not None and self.rounds < 1:
            raise ArgumentError("rounds", self.rounds, "at least 1")
        if not self.clients:
            raise ArgumentError("clients", [], "at least one client")
        self.model = copy.deepcopy(self.model)
        self.history = History()
        self.outcome: Outcome | None = None
        self._optimizer_state: State = {}
        named = {f"client {k}": own for k, own in enumerate(self.clients)}
        self._records = checked_records(self.model, named, self.loss)
        sizes = [len(y) for _, y in self._records]
        self._counts = sizes if self.weighting == "records" else [1] * len(sizes)
        order = sorted(range(len(sizes)), key=lambda k: self._counts[k], reverse=True)
        cohort = self.selected(len(sizes))
        largest = order[: max(cohort, self.mechanism.cohort(cohort))]
        self.aggregator.check_round(self._announced(1, largest))
        self.check_model(self.model, len(sizes))
        self._of_parameters = of_parameters(self.model, statistics=self.exchanges_statistics)

    def _weights(self) -> Weights:
        """Returns what clients exchange of the model."""
        return get_weights(self.model, statistics=self.exchanges_statistics)

    def fit(
        self,
        rounds: int | None = None,
        test_set: Records | None = None,
        *,
        own_tests: Mapping[int, Records] | None = None,
        evaluate_every: int = 1,
        checkpoint: Path | None = None,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
    ) -> History:
        """Runs so many more rounds and returns the history of all.

        Args:
            rounds: how many; None: those that are left of the run's own `rounds`.
            test_set: records by which the model is evaluated; it is not unless they are given.
            own_tests: records that clients hold out, by client: `RoundReport.of_clients` has what
                the model does on each.
            evaluate_every: rounds from one evaluation to the next; the last is always evaluated.
            checkpoint: where the run is saved after every round. A round that is interrupted is
                repeated and charged again; what the first attempt sent is not in the ledger.
            callbacks: called after every round, once it is saved: `CSVWriter`, `TensorBoardWriter`,
                or any function of the history and the model.
            progress: show a bar with accuracy and bytes.

        Raises:
            ArgumentError: an argument outside its range, or no rounds here and none of the run.
            RoundError: a round failed, and is not to be skipped; the history has it.
            WorkerLostError: a process that trains clients died.
        """
        for name, value in (("rounds", rounds), ("evaluate_every", evaluate_every)):
            if value is not None and value < 1:
                raise ArgumentError(name, value, "at least 1")
        rounds = self._remaining() if rounds is None else rounds
        tests = Tests(self.model, test_set, self._own(own_tests or {}), self.loss, self.metrics)
        trainer = Trainer(
            self.model, self.training, self.workers, statistics=self.exchanges_statistics
        )
        with trainer, progress_bar(rounds, shown=progress) as show:
            for left in reversed(range(rounds)):
                began = time.perf_counter()
                report, error = self._round(trainer)
                if left == 0 or report.number % evaluate_every == 0:
                    report = tests.evaluated(report)
                report = replace(report, seconds=time.perf_counter() - began)
                self.history.rounds.append(report)
                if checkpoint is not None:
                    self.save(checkpoint)
                for callback in callbacks:
                    callback(self.history, self.model)
                show(report)
                if error is not None and self.on_failure == "raise":
                    raise error
        return self.history

    def _own(self, tests: Mapping[int, Records]) -> Mapping[int, Records]:
        """Returns clients' own tests, which are of clients of this run."""
        if wrong := [client for client in tests if not 0 <= client < len(self._records)]:
            raise ArgumentError("own_tests", wrong, f"by client, in 0..{len(self._records) - 1}")
        return tests

    def _remaining(self) -> int:
        if self.rounds is None:
            advice = "Say how many to `fit`, or to the run."
            raise ArgumentError("rounds", None, "at least 1", advice)
        return max(0, self.rounds - len(self.history))

    def _round(self, trainer: Trainer) -> tuple[RoundReport, RoundError | None]:
        number = len(self.history) + 1
        selected = self.select(number, len(self._records))
        transport = InProcessTransport(self.network, self.drop_outs(number), self.transcript)
        failure: RoundError | None = None
        included: tuple[int, ...] = ()
        try:
            self.outcome = self._exchange(number, selected, trainer, transport)
            included = self.outcome.included
        except RoundError as error:
            failure = error
        transcript = transport.transcript
        report = RoundReport(
            number=number,
            selected=selected,
            included=included,
            refused={refusal.client: refusal.reason for refusal in transport.refusals},
            vanished=tuple(transport.vanished),
            failure=failure.reason if failure else "",
            bytes_up=transcript.bytes(receiver=SERVER),
            bytes_down=transcript.bytes(sender=SERVER),
            bytes_total=transcript.bytes(),
            virtual_seconds=transport.now if failure or not self.outcome else self.outcome.seconds,
        )
        return report, failure

    def _exchange(
        self,
        number: int,
        selected: tuple[int, ...],
        trainer: Trainer,
        transport: InProcessTransport,
    ) -> Outcome:
        """Runs a round, and changes the model only if all of it succeeded."""
        weights = self._weights()
        try:
            round = self._announced(number, selected)
            self.aggregator.check_round(round)
        except ArgumentError as error:
            raise RoundError(number, str(error)) from error
        self.mechanism.charge(round, len(self._records))
        trained = trainer.train(
            weights,
            {client: self._records[client] for client in selected},
            {client: self._training_round(number, client) for client in selected},
        )
        machines = session_machines(
            round,
            weights,
            self.aggregator,
            lambda client, received: self._update(round, client, trained[client], received),
            timeout=self.timeout,
            training_seconds=self.training_seconds,
        )
        outcome = transport.run(machines)
        mean = self.mechanism.server(outcome.aggregate.mean, round, outcome.included)
        state = self._optimizer_state
        try:
            if self.exchange == "delta":
                mean, state = apply(self.server_optimizer, mean, self._of_parameters, state)
            new = next_weights(weights, mean, delta=self.exchange == "delta")
        except UpdateError as error:
            raise RoundError(number, str(error)) from error
        set_weights(self.model, new, statistics=self.exchanges_statistics)
        self._optimizer_state = state
        return outcome

    def _training_round(self, number: int, client: int) -> ClientRound:
        seed = training_seed(self.seed, number, client)
        return ClientRound(number=number, client=client, seed=seed)

    def _announced(self, number: int, selected: Sequence[int]) -> Round:
        """Returns the round of these clients, with what they know from the run's settings."""
        size = self._weights().size + self.mechanism.extra_values
        plan = self.plan(len(self._records))
        weights = {client: self._counts[client] for client in selected}
        return Round(number=number, size=size, weights=weights, plan=plan)

    def _update(
        self, round: Round, client: int, trained: Weights | UpdateError, received: Weights
    ) -> Vector:
        """Returns the update that a client sends, once it has received the model."""
        if isinstance(trained, UpdateError):
            raise trained
        update = trained.astype(np.float64)
        check_update(update, received.size)
        if self.exchange == "delta":
            update -= received
        return self.mechanism.client(update, round, client)

    def get_epsilon(self, delta: float, accountant: str = "pld") -> float:
        """Returns the epsilon of all rounds so far, as the mechanism accounts for them.

        The mechanism's docstring says what it guarantees, and for which neighbours: a client that
        is there or not with `CentralDP`, two updates of a client with the others. Infinite without
        such a guarantee.

        Args:
            delta: of all rounds together.
            accountant: "pld" or "rdp".

        Raises:
            ArgumentError: as `Ledger.get_epsilon`.
        """
        ledger = self.mechanism.ledger
        return math.inf if ledger is None else ledger.get_epsilon(delta, accountant)

    def save(self, path: Path) -> None:
        """Writes the state of the run into an .npz file that its owner alone may read."""
        Checkpoint(
            weights=self._weights(),
            settings=self._settings(),
            history=self.history.to_json(),
            mechanism=self.mechanism.state(),
            optimizer=self._optimizer_state,
        ).write(path)

    def load(self, path: Path) -> None:
        """Goes on from a state that `save` wrote, in a run with the same arguments.

        Raises:
            ArgumentError: no such state, or one of a run with other arguments; names the first.
        """
        state = Checkpoint.read(path)
        ours, theirs = json.loads(self._settings()), json.loads(state.settings)
        for name, value in ours.items():
            if theirs.get(name) != value:
                raise ArgumentError(name, value, f"{theirs.get(name)!r} as in {path.name}")
        set_weights(self.model, state.weights, statistics=self.exchanges_statistics)
        self.history = History.from_json(state.history)
        self.mechanism.restore(state.mechanism)
        self._optimizer_state = state.optimizer

    def _settings(self) -> str:
        """Returns, as JSON, what must be equal in a run that goes on from this one."""
        parameters = int(self._weights().size)
        records = [len(y) for _, y in self._records]
        return json.dumps({**self.facts_of_run(), "parameters": parameters, "records": records})
