"""Federated averaging: rounds of local training and aggregation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from extensions.checks import check_writable
from extensions.errors import ArgumentError, RoundError
from extensions.rules import Whole
from fl.round.machines import Round
from fl.round.transport import InProcessTransport
from fl.round.view import Outcome
from fl.training.callbacks import Callback
from fl.training.callbacks import progress as progress_bar
from fl.training.course import Course
from fl.training.data import Records
from fl.training.evaluation import Tests
from fl.training.history import History
from fl.training.session import session_machines
from fl.training.workers import Trainer


@dataclass(kw_only=True, eq=False, repr=False)
class FederatedAveraging(Course):
    """Runs federated averaging over simulated clients, which exchange real messages.

    In every round the server sends the model to some clients, each trains it on its own records,
    and the aggregator takes the weighted mean of their updates to the server.

    Guarantees:
        Two runs with the same seed, model and clients are equal, for any number of workers, and
        also if you save and load one in between. Noise of a mechanism is the exception: it comes
        from the operating system, and so do the masks of aggregators.

    Args:
        model: initial model, in single precision; copied. Afterwards, the present model.
        clients: the records of each client, by its number.
        rounds: of the whole run, with those before it was saved; None: give them to `fit`.

    Attributes:
        history: of all rounds so far.
        outcome: of the last round that succeeded, with the messages that are kept; None before.

    Raises:
        ArgumentError: an argument outside its range, or rounds that the aggregator rejects.

    Source:
        McMahan et al., AISTATS 2017, Algorithm 1.

    Examples:
        >>> run = fl.FederatedAveraging(
        ...     model=fl.models.logistic(64), clients=clients, aggregator=fl.PlainAggregator()
        ... )
        >>> history = run.fit(rounds=3, test_set=test)
        >>> history.accuracy > 0.5, len(history)
        (True, 3)
    """

    clients: Sequence[Records]

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            named = {f"client {k}": own for k, own in enumerate(self.clients)}
        except TypeError as error:
            kind = type(self.clients).__name__
            rule = "a list of each client's records"
            raise ArgumentError("clients", kind, rule, code="type") from error
        if not named:
            raise ArgumentError("clients", [], "", code="missing")
        self.check_model(self.model, len(named))
        self._records = self.checked_records(self.model, named)
        sizes = [len(y) for _, y in self._records]
        self._counts = {client: self.weight(size) for client, size in enumerate(sizes)}
        order = sorted(self._counts, key=lambda k: self._counts[k], reverse=True)
        cohort = self.selected(len(sizes))
        largest = order[: max(cohort, self.mechanism.cohort(cohort))]
        self.aggregator.check_round(self._announced(1, largest))

    def fit(
        self,
        rounds: int | None = None,
        test_set: Records | None = None,
        *,
        own_tests: Mapping[int, Records] | None = None,
        evaluate_every: int = 1,
        delta: float | None = None,
        checkpoint: Path | str | None = None,
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
            delta: at which each round's report has the epsilon of all rounds so far; None: none.
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
            if value is not None:
                Whole(1).check(name, value)
        rounds = self._remaining() if rounds is None else rounds
        if checkpoint is not None:
            check_writable("checkpoint", Path(checkpoint))
        for callback in callbacks:
            if not callable(callback):
                rule = "functions of history and model"
                raise ArgumentError("callbacks", callback, rule, code="type")
        own = self._own(own_tests or {})
        tests = Tests(self.model, test_set, own, self.loss, self.metrics, self.model_of)
        save = (lambda: None) if checkpoint is None else partial(self.save, checkpoint)
        with self._trainer(rounds) as trainer, progress_bar(rounds, shown=progress) as show:
            told = [*callbacks, lambda history, model: show(history[-1])]
            perform = partial(self._round, trainer)
            return self._rounds(rounds, perform, tests, save, told, evaluate_every, delta)

    def _trainer(self, rounds: int | None) -> Trainer:
        return Trainer(
            self.model,
            self.training,
            self.workers,
            parts=self._parts,
            hidden=self.mechanism.hides_updates,
            cohorts=self.cohorts,
            rounds=rounds,
        )

    def _own(self, tests: Mapping[int, Records]) -> Mapping[int, Records]:
        """Returns clients' own tests, which are of clients of this run."""
        if wrong := [client for client in tests if client not in range(len(self._records))]:
            rule = f"keyed by client, in 0..{len(self._records) - 1}"
            raise ArgumentError("own_tests", wrong, rule, code="range")
        return tests

    def _round(self, trainer: Trainer) -> RoundError | None:
        number = len(self.history) + 1
        selected = self.select(number, len(self._records))
        transport = InProcessTransport(self.network, self.drop_outs(number), self.transcript)
        exchange = partial(self._exchange, number, selected, trainer, transport)
        report, failure = self._reported(number, selected, transport, exchange)
        self.history.rounds.append(report)
        return failure

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
        told = {
            client: replace(self.of_client(number, client), state=self.states.get(client, {}))
            for client in selected
        }
        records = {client: self._records[client] for client in selected}
        trained = trainer.train(weights, records, told)
        machines = session_machines(
            round,
            weights,
            self.aggregator,
            lambda client, received: self.update(round, client, trained(client), received),
            timeout=self.timeout,
            training_seconds=self.training_seconds,
        )
        outcome = transport.run(machines)
        self._advance(weights, outcome, round)
        kept = {client: trainer.states.pop(client, {}) for client in outcome.included}
        self.states |= {client: state for client, state in kept.items() if state}
        return outcome

    def _announced(self, number: int, selected: Sequence[int]) -> Round:
        """Returns the round of these clients, with what they know from the run's settings."""
        weights = {client: self._counts[client] for client in selected}
        return self.announced(number, weights, len(self._records))

    def _facts(self) -> dict[str, Any]:
        return {"records": [len(y) for _, y in self._records]}
