"""The settings of a run of federated averaging."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import numpy as np
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from extensions.errors import ArgumentError, UpdateError
from extensions.rules import NOT_NEGATIVE, PART, POSITIVE, Whole, check_fields
from fl.beside import Beside
from fl.clients import (
    ClientRound,
    ClientTraining,
    LocalSGD,
    Loss,
    described,
    qualified_name,
    training_seed,
)
from fl.privacy.mechanism import Mechanism
from fl.round.aggregator import Aggregator, check_update
from fl.round.choices import Exchange, Keep, OnFailure, Statistics, Weighting
from fl.round.machines import Plan, Round, Vector
from fl.round.network import DropOut, Network
from fl.training.data import Records
from fl.training.evaluation import Metric
from fl.training.inputs import check_single, checked_records
from fl.training.optimizers import ServerOptimizer
from fl.weights import Parts, Shared, Weights, batch_norms, get_weights, running_statistics

_OF_SGD = ("local_epochs", "batch_size", "lr")


def nobody(number: int) -> Sequence[DropOut]:
    """Returns no drop-out, whatever the number of the round."""
    return ()


@dataclass(kw_only=True, eq=False)
class RunSettings:
    """Holds the settings of a run besides its model and its clients.

    Attributes:
        aggregator: the protocol by which the server gets the mean of the updates. You choose
            it by name, because the plain one is insecure.
        client_fraction: share C of the clients that are selected for a round: the whole part of
            their number, at least one.
        local_epochs: E, passes of a client over its records in a round.
        batch_size: B, records a local step; None: all of a client's records in one step.
        lr: learning rate of the clients.
        drop_last: leave out the last step of an epoch if it has fewer than B records, unless it is
            the only one: BatchNorm needs more than one record.
        train: training of a client, in place of the four settings before: a function of (model,
            records, round) with any optimizer and number of steps, on any device
            (`fl.algorithms`).
        server_optimizer: step of the server from the mean; needs exchange="delta".
        mechanism: changes updates and their mean, such as by noise.
        exchange: "delta": clients send what training changed. "weights": what it ended with.
        statistics: of the model besides parameters, such as the running ones of BatchNorm.
            "exchange": clients send them and they are averaged, as parameters are. "keep": they
            stay those of the initial model, in every round and at the end, and remain on clients. A
            mechanism that clips or adds noise needs "keep" if the model has any; GroupNorm is
            without. Integers, such as counts of batches, stay on clients.
        shared: which parts of the model clients exchange. "all". "trainable": parameters alone.
            "fedbn": all but the layers of BatchNorm, parameters and statistics (Li et al., ICLR
            2021, FedBN). Or names of parameters, in which * stands for any text: ("body.*",). Each
            client keeps all other parts to itself from round to round (`Course.states`). Frozen
            parameters always stay on clients. The test set is evaluated with the initial values of
            the other parts, and `own_tests` with each client's own.
        weighting: "records": clients weigh in the mean as many times as they have records.
            "equal": all alike. None: "equal" where the mechanism needs it, else "records"; the
            attribute then says which.
        loss: of outputs and labels, a mean over the batch. Labels that are integers number classes
            for `cross_entropy`; floating-point ones have the shape of the outputs.
        metrics: what evaluation measures beside loss and accuracy, by name, each from the outputs
            and labels of all records: for regression, or of one class.
        network: delays and bandwidths, on a virtual clock.
        drop_outs: from the number of a round to the parties that vanish in it.
        training_seconds: that a client takes to train, on the virtual clock.
        timeout: seconds on that clock in which clients must receive the model and train.
        workers: processes that train clients side by side, each on one thread, where that is
            faster; more than one need a script whose main part stands under
            ``if __name__ == "__main__":``.
        cohorts: train clients of a small model together, several times as fast, for any number of
            workers. Updates are within 1e-5 of those that clients compute one by one, as with False
            and on other hosts. If that is impossible, the log says why.
        transcript: what is kept of the messages of a round, in `outcome`: "none", "sizes" or "all";
            `leaks_to` and views need all, which takes the memory of all updates.
        on_failure: of a round: "raise" the error, or "skip" the round: the model stays as it is.
        seed: of selection, batches and dropout; public.
        session: name of the run. Clients on other hosts take part in each round of a name only
            once, because two sums that differ by a client would reveal its update. A further run
            needs another name, or other settings.
        facts: what else must be equal when a saved run is resumed, such as its data; JSON by name.

    `training` is what a client does, made of these.

    Raises:
        ArgumentError: a setting outside its range, or two that contradict each other.

    Examples:
        >>> run = fl.FederatedAveraging(
        ...     **setup, aggregator=fl.PlainAggregator(), client_fraction=0.5, lr=0.05
        ... )
        >>> run.fit(rounds=1)[0].selected == run.select(1, len(clients))
        True
    """

    aggregator: Aggregator
    client_fraction: Annotated[float, PART] = 0.1
    local_epochs: int = 5
    batch_size: int | None = 10
    lr: float = 0.1
    drop_last: bool = False
    train: ClientTraining | None = None
    server_optimizer: ServerOptimizer = field(default_factory=ServerOptimizer)
    mechanism: Mechanism = field(default_factory=Mechanism)
    exchange: Exchange = "delta"
    statistics: Statistics = "exchange"
    shared: Shared = "all"
    weighting: Weighting | None = None
    loss: Loss = cross_entropy
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    network: Network = field(default_factory=Network)
    drop_outs: Callable[[int], Sequence[DropOut]] = nobody
    training_seconds: Annotated[float, NOT_NEGATIVE] = 0.0
    timeout: Annotated[float, POSITIVE] = 600.0
    workers: Annotated[int, Whole(1)] = 1
    cohorts: bool = True
    transcript: Keep = "none"
    on_failure: OnFailure = "raise"
    seed: Annotated[int, Whole(0)] = 0
    session: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind, such in (
            ("aggregator", Aggregator, "MaskedAggregator"),
            ("mechanism", Mechanism, "CentralDP"),
            ("server_optimizer", ServerOptimizer, "FedAdam"),
        ):
            if not isinstance(value := getattr(self, name), kind):
                rule = f"an object such as fl.{such}()"
                raise ArgumentError(name, value, rule, code="type")
        if self.train is not None and not callable(self.train):
            rule = "a function of model, records and round"
            raise ArgumentError("train", self.train, rule, code="type")
        check_fields(self)
        self.training = self._training()
        equal = self.mechanism.equal_weights or getattr(self.training, "equal_weights", False)
        if self.weighting is None:
            self.weighting = "equal" if equal else "records"
        if not isinstance(self.session, str):
            raise ArgumentError("session", self.session, "a text", code="type")
        user = type(self.mechanism).__name__
        if self.mechanism.exchange is not None:
            self._check_choice("exchange", self.mechanism.exchange, user)
        if equal:
            by = user if self.mechanism.equal_weights else type(self.training).__name__
            self._check_choice("weighting", "equal", by)
        if self.server_optimizer != ServerOptimizer():
            self._check_choice("exchange", "delta", "a server optimizer")
        if self.aggregator.hides_model:
            self._check_hidden()
        if not isinstance(self.metrics, Mapping) or not all(map(callable, self.metrics.values())):
            rule = "functions of outputs and labels, by name"
            raise ArgumentError("metrics", self.metrics, rule, code="type")
        if wrong := {"loss", "accuracy"} & set(self.metrics):
            raise ArgumentError("metrics", sorted(wrong), "other names", "These are there already.")

    def _check_choice(self, name: str, wanted: str, user: str) -> None:
        if (value := getattr(self, name)) != wanted:
            raise ArgumentError(name, value, f"{wanted!r} with {user}", code="choice")

    def _check_hidden(self) -> None:
        """Checks that the server needs neither the model nor a mean."""
        hidden = "an aggregator that hides the model from the server"
        self._check_choice("exchange", "delta", hidden)
        if self.server_optimizer != ServerOptimizer():
            name = type(self.server_optimizer).__name__
            raise ArgumentError("server_optimizer", name, f"with {hidden}", code="conflict")
        if type(self.mechanism).server is not Mechanism.server:
            name = type(self.mechanism).__name__
            rule = f"a mechanism that leaves the mean unchanged, because of {hidden}"
            raise ArgumentError("mechanism", name, rule)

    def _training(self) -> ClientTraining:
        """Returns what a client does in a round."""
        given = {"mechanism": self.mechanism.training, "train": self.train}
        others = {name: own for name, own in given.items() if own is not None}
        if not others:
            return LocalSGD(
                epochs=self.local_epochs,
                batch_size=self.batch_size,
                lr=self.lr,
                loss=self.loss,
                drop_last=self.drop_last,
            )
        if len(others) > 1:
            name = type(self.mechanism).__name__
            rule = f"with {name}, which trains itself"
            raise ArgumentError("train", self.train, rule, code="conflict")
        ((name, training),) = others.items()
        for setting in (*_OF_SGD, "drop_last"):
            value, usual = getattr(self, setting), getattr(RunSettings, setting)
            if value != usual:
                rule = f"with a training by {{{name}}}"
                raise ArgumentError(setting, value, rule, code="conflict")
        return training

    def selected(self, population: int) -> int:
        """Returns how many of so many clients take part in a round."""
        return max(1, math.floor(self.client_fraction * population + 1e-9))

    def select(self, number: int, population: int) -> tuple[int, ...]:
        """Returns who takes part in round `number`, in ascending order.

        The mechanism draws them, or else the seed.
        """
        chosen = self.mechanism.select(number, population, self.client_fraction)
        if chosen is None:
            draws = np.random.default_rng([self.seed, number])
            chosen = draws.choice(population, self.selected(population), replace=False).tolist()
        return tuple(sorted(chosen))

    def parts(self, model: nn.Module) -> Parts:
        """Returns what clients do not exchange of a model; a name that it has not is refused."""
        return Parts.of(model, statistics=self.statistics == "exchange", shared=self.shared)

    def check_model(self, model: nn.Module, population: int) -> None:
        """Checks that mechanism and aggregator are for updates of this model.

        Args:
            model: of the run.
            population: number of clients.

        Raises:
            ArgumentError: the model has statistics which the mechanism would change, or BatchNorm
                where the mechanism trains on single records; or as `Mechanism.check_aggregator`.
        """
        if self.mechanism.training is not None and (layers := batch_norms(model)):
            rule = f"a model without BatchNorm, because of {type(self.mechanism).__name__}"
            hint = f"Layer {layers[0]!r} mixes records. Use GroupNorm."
            raise ArgumentError("model", type(model).__name__, rule, hint)
        parts = self.parts(model)
        if parts.local and getattr(self.training, "whole_model", False):
            self._check_choice("shared", "all", type(self.training).__name__)
        names = tuple(k for k in running_statistics(model) if k not in parts.without)
        if names and self.mechanism.parameters_only:
            shown = ", ".join(names[:2]) + (", ..." if len(names) > 2 else "")
            raise ArgumentError(
                "statistics",
                self.statistics,
                f"'keep' with {type(self.mechanism).__name__} and a model that has {shown}",
                "Noise and clipping are for parameters. Or use a model without, with GroupNorm.",
                code="choice",
            )
        if (names := Beside(self.training, model).names) and self.mechanism.parameters_only:
            rule = f"one that exchanges the model alone with {type(self.mechanism).__name__}"
            raise ArgumentError("train", f"with {', '.join(names[:2])}", rule, code="conflict")
        size = self.exchanged(model)
        cohort = self.plan(population).cohort
        self.mechanism.check_aggregator(self.aggregator, size, cohort)

    def exchanged(self, model: nn.Module) -> int:
        """Returns how many values clients exchange, of the model and beside it."""
        beside = Beside(self.training, model).first.size
        return get_weights(model, without=self.parts(model).without).size + int(beside)

    def checked_records(
        self, model: nn.Module, named: Mapping[str, Records]
    ) -> list[tuple[Tensor, Tensor]]:
        """Returns records and labels of each client, which fit the model and the mechanism.

        Args:
            model: of the run.
            named: the data sets, by their names for errors.

        Raises:
            ArgumentError: as `fl.training.inputs.checked_records`, or `Mechanism.check_records`.
        """
        sgd = self.training if isinstance(self.training, LocalSGD) else None
        hidden = self.mechanism.hides_updates
        found = checked_records(
            model, named, self.loss, hidden=hidden, trains=None if sgd is None else True
        )
        single = {
            (x.shape[1:], x.dtype): (x, name)
            for name, (x, _) in zip(named, found, strict=True)
            if sgd is not None and sgd.fewest(len(x)) == 1
        }
        for x, name in single.values():
            check_single(model, x, name)
        kinds = {(x.shape[1:], x.dtype, y.shape[1:], y.dtype): (x, y) for x, y in found}
        for pair in kinds.values():
            self.mechanism.check_records(model, *pair)
        return found

    def weight(self, records: int) -> int:
        """Returns what the update of a client with so many records weighs in the mean."""
        return records if self.weighting == "records" else 1

    def of_client(self, number: int, client: int) -> ClientRound:
        """Returns what a client's training is told beside its records."""
        seed = training_seed(self.seed, number, client)
        return ClientRound(number=number, client=client, seed=seed, share=self.client_fraction)

    def update(
        self, round: Round, client: int, trained: Weights | UpdateError, received: Weights
    ) -> Vector:
        """Returns the update that a client sends, once it has received the model.

        Args:
            round: of those who were selected, or of this client alone.
            client: whose it is.
            trained: the weights after its training, or why it withdraws.
            received: those before it.

        Raises:
            UpdateError: the client withdraws.
        """
        if isinstance(trained, UpdateError):
            raise trained
        update = trained.astype(np.float64)
        fits = update.shape == received.shape and np.isfinite(update).all()
        if self.mechanism.hides_updates and not fits:
            update = received.astype(np.float64)  # where that is not finite it is refused
        check_update(update, received.size)
        if self.exchange == "delta":
            update -= received
        return self.mechanism.client(update, round, client)

    def plan(self, population: int) -> Plan:
        """Returns what each of so many clients knows of the next round from these settings."""
        settings = {**self.facts_of_run(), "of the round": self.mechanism.announced()}
        return Plan(
            cohort=self.mechanism.cohort(self.selected(population)),
            population=population,
            settings=hashlib.sha256(as_json(settings).encode()).digest(),
        )

    def facts_of_run(self) -> dict[str, Any]:
        """Returns, by name, what must be equal in a run that goes on from a saved one."""
        names = ("client_fraction", *_OF_SGD, "seed", *(["session"] if self.session else []))
        choices = ("exchange", "statistics", "weighting")
        optimizer = self.server_optimizer
        return {
            **({} if self.shared == "all" else {"shared": self.shared}),
            **self.facts,
            **{name: getattr(self, name) for name in (*names, *choices)},
            **({"drop_last": True} if self.drop_last else {}),
            **({} if self.cohorts else {"cohorts": False}),
            **({} if self.train is None else described(self.train)),
            "server_optimizer": {"name": type(optimizer).__name__, **asdict(optimizer)},
            "loss": qualified_name(self.loss),
            "aggregator": type(self.aggregator).__name__,
            **{f"aggregator.{k}": v for k, v in self.aggregator.parameters().items()},
            "mechanism": type(self.mechanism).__name__,
            **self.mechanism.parameters(),
        }


def as_json(settings: Mapping[str, Any]) -> str:
    """Returns settings as JSON text, NumPy's numbers as Python's, or raises ArgumentError."""
    return json.dumps(settings, default=_plain)


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    rule = "of numbers, texts, and lists or mappings of these"
    raise ArgumentError("settings", type(value).__name__, rule, "Look at {facts}.", code="type")
