"""What a run of federated averaging has on its server, whoever carries its messages."""

import copy
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from extensions import durable
from extensions.errors import ArgumentError, RoundError, UpdateError
from extensions.npz import read_npz
from extensions.printing import table
from extensions.rules import Whole
from fl.beside import METRIC, Beside
from fl.round.machines import Round
from fl.round.messages import SERVER
from fl.round.transport import Carrier
from fl.round.view import Outcome
from fl.training.callbacks import Callback
from fl.training.evaluation import Tests
from fl.training.history import History, RoundReport
from fl.training.optimizers import State, apply, check_state
from fl.training.settings import RunSettings, as_json
from fl.weights import (
    Weights,
    get_weights,
    next_weights,
    not_exchanged,
    of_parameters,
    set_weights,
)

_OPTIMIZER, _CLIENT = "optimizer.", "client."


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A run between two rounds.

    Attributes:
        weights: of the model.
        settings: what must be alike where the run goes on, as text.
        history: as JSON.
        mechanism: its state, with its ledger, as text; empty: it has none.
        optimizer: the state of the server's, by name.
        clients: what clients' training keeps, by client and name.
    """

    weights: Weights
    settings: str
    history: str
    mechanism: str
    optimizer: State
    clients: Mapping[int, Mapping[str, Tensor]]

    def write(self, path: Path) -> None:
        """Writes the file whole or not at all; its owner alone may read it."""
        with durable.write(path) as file:
            apart = ("optimizer", "clients")
            entries: dict[str, Any] = {k: v for k, v in vars(self).items() if k not in apart}
            for client, state in self.clients.items():
                entries |= {f"{_CLIENT}{client}.{k}": v.numpy() for k, v in state.items()}
            entries |= {f"{_OPTIMIZER}{name}": kept for name, kept in self.optimizer.items()}
            np.savez(file, **entries)

    @classmethod
    def read(cls, path: Path) -> "Checkpoint":
        """Returns what was written; another file, or none, is an ArgumentError."""
        try:
            held = read_npz(path)
            texts: dict[str, Any] = {
                name: str(held[name]) for name in ("settings", "history", "mechanism")
            }
            weights, settings = held["weights"], json.loads(texts["settings"])
            if (
                weights.dtype != np.float32
                or weights.ndim != 1
                or not np.all(np.isfinite(weights))
                or not isinstance(settings, dict)
            ):
                raise ValueError
            clients: dict[int, dict[str, Tensor]] = {}
            for name in held:
                if name.startswith(_CLIENT):
                    client, _, own = name.removeprefix(_CLIENT).partition(".")
                    clients.setdefault(int(client), {})[own] = torch.from_numpy(held[name])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            rule = "a file that FederatedAveraging.save wrote"
            raise ArgumentError("path", str(path), rule, code="file") from error
        kept = [name for name in held if name.startswith(_OPTIMIZER)]
        optimizer = {name.removeprefix(_OPTIMIZER): held[name] for name in kept}
        return cls(weights=weights, optimizer=optimizer, clients=clients, **texts)


@dataclass(kw_only=True, eq=False, repr=False)
class Course(RunSettings):
    """The model of a run, what its optimizer keeps, and the history; saved and loaded.

    Attributes:
        model: the model to start from, in single precision; it is copied, and then the present one.
        rounds: of the whole run, including those before it was saved; None: not said here.
        history: of all rounds so far.
        outcome: of the last round that succeeded, with the messages that are kept; None before.
        states: what clients' training keeps between their rounds, by client and name, and what they
            keep of the model, by its names after "local."; saved.

    Raises:
        ArgumentError: a setting outside its range.
    """

    model: nn.Module
    rounds: Annotated[int | None, Whole(1)] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, nn.Module):
            raise ArgumentError("model", self.model, "an instance of torch.nn.Module", code="type")
        self._parts = self.parts(self.model)
        kept = not_exchanged(self.model, without=self._parts.without)
        self.model = copy.deepcopy(self.model)
        self.facts = {**self.facts, **kept}
        self.history = History()
        self.outcome: Outcome | None = None
        self._optimizer_state: State = {}
        self._beside = Beside(self.training, self.model)
        if missing := set(self.server_optimizer.needs) - set(self._beside.names):
            name = type(self.server_optimizer).__name__
            rule = f"a training that returns {sorted(missing)} with {name}"
            raise ArgumentError("train", self.train, rule, code="needs")
        self._extra = self._beside.first
        self.states: dict[int, Mapping[str, Tensor]] = {}
        parameters = of_parameters(self.model, without=self._parts.without)
        self._of_parameters = np.concatenate([parameters, np.zeros(self._extra.size, np.bool_)])

    def __repr__(self) -> str:
        settings = ("client_fraction", "local_epochs", "batch_size", "lr", "weighting", "seed")
        row = {
            "rounds": len(self.history),
            "accuracy": self.history.accuracy,
            "aggregator": type(self.aggregator).__name__,
            "mechanism": type(self.mechanism).__name__,
            **{name: getattr(self, name) for name in settings},
        }
        return table(type(self).__name__, [row])

    def announced(self, number: int, weights: Mapping[int, int], population: int) -> Round:
        """Returns the round of clients of these weights, with what they know from the settings."""
        size = self._weights().size + self.mechanism.extra_values
        return Round(number=number, size=size, weights=weights, plan=self.plan(population))

    def _advance(self, weights: Weights, outcome: Outcome, round: Round) -> None:
        """Makes the next model of a round's mean; one with NaN or infinity is a RoundError."""
        mean = self.mechanism.server(outcome.aggregate.mean, round, outcome.included)
        state = self._optimizer_state
        try:
            if self.exchange == "delta":
                beside = mean[weights.size - self._extra.size :]
                fits = beside.shape == self._extra.shape  # another mean is refused below
                extra = self._beside.named(self._extra + beside) if fits else {}
                mean, state = apply(self.server_optimizer, mean, self._of_parameters, state, extra)
            new = next_weights(weights, mean, delta=self.exchange == "delta")
        except UpdateError as error:
            raise RoundError(round.number, str(error)) from error
        self._set(new)
        self._optimizer_state = state

    def _set(self, row: Weights) -> None:
        """Takes the values that clients exchange: the model's, and those beside it."""
        weights, self._extra = np.split(row, [row.size - self._extra.size])
        set_weights(self.model, weights, without=self._parts.without)

    @property
    def extra(self) -> dict[str, Tensor]:
        """The tensors beside the model, by name: the mean of what clients returned last."""
        return self._beside.split(self._extra)[1]

    def model_of(self, client: int) -> nn.Module:
        """Returns the present model with what a client keeps of it; nothing before its first round.

        It is the run's own model where clients share all of it, and else a copy.
        """
        if not self._parts.local:
            return self.model
        model = copy.deepcopy(self.model)
        self._parts.set(model, self.states.get(client, {}))
        return model

    def _metrics(self) -> dict[str, float]:
        """Returns the mean of the metrics that clients returned last, by name."""
        found = self.extra.items()
        return {k.removeprefix(METRIC): float(v) for k, v in found if k.startswith(METRIC)}

    def _weights(self) -> Weights:
        """Returns what clients exchange, of a model no parameter of which was frozen since."""
        model = get_weights(self.model, without=self._parts.without)
        weights = np.concatenate([model, self._extra])
        if weights.size != (first := self._of_parameters.size):
            hint = "Make a new run with the same mechanism, whose ledger goes on."
            rule = f"a model that exchanges {first} values, as when the run was made"
            raise ArgumentError("model", f"{weights.size} values", rule, hint, code="shape")
        return weights

    def _rounds(
        self,
        rounds: int,
        perform: Callable[[], RoundError | None],
        tests: Tests,
        save: Callable[[], None],
        callbacks: Sequence[Callback],
        every: int = 1,
        delta: float | None = None,
    ) -> History:
        """Runs so many rounds, each of which `perform` adds to the history, and returns all.

        Each is evaluated, or one of `every`, and the last, then saved, and then told of.
        """
        for left in reversed(range(rounds)):
            began = time.perf_counter()
            failure = perform()
            report = self.history[-1]
            if left == 0 or report.number % every == 0:
                report = tests.evaluated(report)
            if delta is not None:
                report = replace(report, epsilon=self.get_epsilon(delta))
            self.history.rounds[-1] = replace(report, seconds=time.perf_counter() - began)
            save()
            for callback in callbacks:
                callback(self.history, self.model)
            if failure is not None and self.on_failure == "raise":
                raise failure
        return self.history

    def _reported(
        self,
        number: int,
        selected: tuple[int, ...],
        carrier: Carrier,
        exchange: Callable[[], Outcome],
    ) -> tuple[RoundReport, RoundError | None]:
        """Returns the report of a round that `exchange` runs, without its time, and its failure."""
        included: tuple[int, ...] = ()
        failure: RoundError | None = None
        try:
            self.outcome = exchange()
            included = self.outcome.included
        except RoundError as error:
            failure = error
        transcript = carrier.transcript
        report = RoundReport(
            number=number,
            selected=selected,
            included=included,
            refused={refusal.client: refusal.reason for refusal in carrier.refusals},
            vanished=tuple(carrier.vanished),
            failure=failure.reason if failure else "",
            trained=self._metrics() if included else {},
            bytes_up=transcript.bytes(receiver=SERVER),
            bytes_down=transcript.bytes(sender=SERVER),
            bytes_total=transcript.bytes(),
            virtual_seconds=carrier.now if failure or not self.outcome else self.outcome.seconds,
        )
        return report, failure

    def _remaining(self) -> int:
        if self.rounds is None:
            hint = "Give it to `fit`, or to the run."
            raise ArgumentError("rounds", None, "", hint, code="missing")
        return max(0, self.rounds - len(self.history))

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

    def save(self, path: Path | str) -> None:
        """Writes the state of the run into an .npz file that its owner alone may read."""
        Checkpoint(
            weights=self._weights(),
            clients=self.states,
            settings=self._settings(),
            history=self.history.to_json(),
            mechanism=self.mechanism.state(),
            optimizer=self._optimizer_state,
        ).write(Path(path))

    def load(self, path: Path | str) -> None:
        """Goes on from a state that `save` wrote, in a run with the same arguments.

        Raises:
            ArgumentError: no such state, or one of a run with other arguments; names the first. A
                mechanism whose ledger has releases that the state's need not have. The run is then
                as it was.
        """
        ledger = self.mechanism.ledger
        if ledger is not None and ledger.phases:
            rule = "a new mechanism, because the state's ledger replaces its ledger"
            hint = "Make the run with a new mechanism, then load the state."
            raise ArgumentError("mechanism", type(self.mechanism).__name__, rule, hint)
        path = Path(path)
        state = Checkpoint.read(path)
        ours, theirs = json.loads(self._settings()), json.loads(state.settings)
        for name, value in [*ours.items(), ("parameters", state.weights.size)]:
            if theirs.get(name) != value:
                raise ArgumentError(name, value, f"{theirs.get(name)!r} as in {path.name}")
        history = History.from_json(state.history)
        if any(not report.failure for report in history):
            check_state(self.server_optimizer, state.optimizer, int(self._of_parameters.sum()))
        elif state.optimizer:
            raise ArgumentError("optimizer", sorted(state.optimizer), "empty before any round")
        tried = copy.deepcopy(self.model)
        for kept in state.clients.values():
            self._parts.set(tried, kept)
        self.mechanism.restore(state.mechanism)
        self._set(state.weights)
        self.history = history
        self._optimizer_state = state.optimizer
        self.states = dict(state.clients)

    def _settings(self) -> str:
        """Returns, as JSON, what must be equal in a run that goes on from this one."""
        parameters = int(self._weights().size)
        return as_json({**self.facts_of_run(), "parameters": parameters, **self._facts()})

    def _facts(self) -> dict[str, Any]:
        """Returns what else must be equal in a run that goes on from this one, JSON by name."""
        return {}
