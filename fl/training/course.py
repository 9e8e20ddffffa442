"""What a run of federated averaging has on its server, whoever carries its messages."""

import copy
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

from torch import nn

from extensions.errors import ArgumentError, RoundError, UpdateError
from extensions.printing import table
from extensions.rules import Whole
from fl.round.machines import Refusal, Round
from fl.round.messages import SERVER, Party
from fl.round.view import Outcome, Transcript
from fl.training.checkpoint import Checkpoint
from fl.training.history import History, RoundReport
from fl.training.optimizers import State, apply, check_state
from fl.training.settings import RunSettings, as_json
from fl.training.weights import (
    Weights,
    get_weights,
    next_weights,
    not_exchanged,
    of_parameters,
    set_weights,
)


class Carrier(Protocol):
    """A transport, after a round: what it has of it."""

    transcript: Transcript
    refusals: list[Refusal]
    vanished: list[Party]


@dataclass(kw_only=True, eq=False, repr=False)
class Course(RunSettings):
    """The model of a run, what its optimizer keeps, and the history; saved and loaded.

    Attributes:
        model: the model to start from, in single precision; it is copied, and then the present one.
        rounds: of the whole run, including those before it was saved; None: not said here.
        history: of all rounds so far.
        outcome: of the last round that succeeded, with the messages that are kept; None before.

    Raises:
        ArgumentError: a setting outside its range.
    """

    model: nn.Module
    rounds: Annotated[int | None, Whole(1)] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, nn.Module):
            raise ArgumentError("model", self.model, "an instance of torch.nn.Module", code="type")
        kept = not_exchanged(self.model, statistics=self.exchanges_statistics)
        self.model = copy.deepcopy(self.model)
        self.facts = {**self.facts, **kept}
        self.history = History()
        self.outcome: Outcome | None = None
        self._optimizer_state: State = {}
        self._of_parameters = of_parameters(self.model, statistics=self.exchanges_statistics)

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
        """Makes the next model of a round's mean.

        Raises:
            RoundError: it would hold NaN or infinity; the model stays.
        """
        mean = self.mechanism.server(outcome.aggregate.mean, round, outcome.included)
        state = self._optimizer_state
        try:
            if self.exchange == "delta":
                mean, state = apply(self.server_optimizer, mean, self._of_parameters, state)
            new = next_weights(weights, mean, delta=self.exchange == "delta")
        except UpdateError as error:
            raise RoundError(round.number, str(error)) from error
        set_weights(self.model, new, statistics=self.exchanges_statistics)
        self._optimizer_state = state

    def _weights(self) -> Weights:
        """Returns what clients exchange of the model, which stays what it was from the start.

        Raises:
            ArgumentError: a parameter was frozen since, or is no longer.
        """
        weights = get_weights(self.model, statistics=self.exchanges_statistics)
        if weights.size != (first := self._of_parameters.size):
            hint = "Make a new run of it, with the same mechanism, whose ledger goes on."
            rule = f"one of which {first} values are exchanged, as when the run was made"
            raise ArgumentError("model", f"{weights.size} values", rule, hint, code="shape")
        return weights

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
            rule = "one without releases in its ledger, which the state's takes the place of"
            hint = "Give the run that loads a state a new mechanism."
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
        self.mechanism.restore(state.mechanism)
        set_weights(self.model, state.weights, statistics=self.exchanges_statistics)
        self.history = history
        self._optimizer_state = state.optimizer

    def _settings(self) -> str:
        """Returns, as JSON, what must be equal in a run that goes on from this one."""
        parameters = int(self._weights().size)
        return as_json({**self.facts_of_run(), "parameters": parameters, **self._facts()})

    def _facts(self) -> dict[str, Any]:
        """Returns what else must be equal in a run that goes on from this one, JSON by name."""
        return {}


def round_report(
    number: int,
    selected: tuple[int, ...],
    included: tuple[int, ...],
    carrier: Carrier,
    failure: RoundError | None,
) -> RoundReport:
    """Returns the report of a round that a transport carried, without its times."""
    transcript = carrier.transcript
    return RoundReport(
        number=number,
        selected=selected,
        included=included,
        refused={refusal.client: refusal.reason for refusal in carrier.refusals},
        vanished=tuple(carrier.vanished),
        failure=failure.reason if failure else "",
        bytes_up=transcript.bytes(receiver=SERVER),
        bytes_down=transcript.bytes(sender=SERVER),
        bytes_total=transcript.bytes(),
    )
