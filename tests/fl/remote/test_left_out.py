"""A client that an error takes out of a round: a simulation and clients on other hosts do alike."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from torch import nn
from torch.utils.data import TensorDataset

import fl
from extensions.errors import ArgumentError, CiphertextError, MessageError, RoundError, UpdateError
from fl.protocols import Aggregator, Mechanism, Message, Round, Vector, aggregate
from fl.training.history import RoundReport
from tests.fl.remote.test_remote import AGGREGATORS, EVERYBODY, of
from tests.helpers.federated.remote import TEST, Settings, mlp, remote, simulated, weights

FAULTY = 2
SECRET = "label 7"
OTHERS = tuple(k for k in EVERYBODY if k != FAULTY)
TRAINS_ITSELF = {"local_epochs": 5, "batch_size": 10}
TOLD = "it cannot train its model: see its own log"
UNTOLD = "an error on its host; see its own log"


class NotForPickle(Exception):
    """An error of two arguments, one of which no process can send to another."""

    def __init__(self, words: str, lock: object) -> None:
        super().__init__(words)
        self.lock = lock


class Wordless(Exception):
    def __str__(self) -> str:
        raise TypeError(SECRET)


class OwnUpdateError(UpdateError):
    def __init__(self, words: str, lock: object) -> None:
        super().__init__(words)
        self.lock = lock


ERRORS: dict[str, Callable[[], Exception]] = {
    "value": lambda: ValueError(SECRET),
    "key": lambda: KeyError(SECRET),
    "memory": lambda: MemoryError(SECRET),
    "of its own": lambda: NotForPickle(SECRET, threading.Lock()),
    "argument": lambda: ArgumentError("label", SECRET, "in 0..5"),
    "round": lambda: RoundError(1, SECRET),
    "end": lambda: StopIteration(SECRET),
    "wordless": Wordless,
}


class Fails:
    """A training that is nothing, and for one client an error, or for the first few one each."""

    def __init__(self, *names: str, first: int = FAULTY) -> None:
        self.named = dict(enumerate(names, first))

    def __call__(self, model: nn.Module, records: TensorDataset, round: fl.ClientRound) -> None:
        if round.client in self.named:
            raise ERRORS[self.named[round.client]]()


def withdraws(model: nn.Module, records: TensorDataset, round: fl.ClientRound) -> None:
    """Is nothing, and for one client an error that says why, and that no process can send."""
    if round.client == FAULTY:
        raise OwnUpdateError("no money", threading.Lock())


def of_training(name: str, train: object) -> Settings:
    return lambda: {**of(name)(), **TRAINS_ITSELF, "train": train}


def both(settings: Settings, rounds: int = 1) -> tuple[RoundReport, RoundReport]:
    """Returns the last round of a simulation, and of a run on other hosts."""
    run, post = remote(settings, rounds=rounds)
    run.fit(post)
    here = simulated(settings, rounds=rounds)
    np.testing.assert_array_equal(weights(run), weights(here))
    return here.history[-1], run.history[-1]


def alike(report: RoundReport) -> tuple[object, ...]:
    """Returns what is of a round and not of its clock."""
    names = ("selected", "included", "refused", "vanished", "failure", "bytes_up", "bytes_down")
    return tuple(getattr(report, name) for name in names)


@pytest.mark.parametrize("workers", [1, 2])
def test_trainings_that_fail_leave_their_clients_out_and_their_words_in_the_log(workers, caplog):
    count = len(ERRORS) + 2
    run = fl.FederatedAveraging(
        model=mlp(),
        clients=fl.partition(TEST, count),
        aggregator=fl.PlainAggregator(),
        client_fraction=1.0,
        train=Fails(*ERRORS, first=0),
        workers=workers,
    )
    (report,) = run.fit(1, progress=False)
    assert report.refused == dict.fromkeys(range(len(ERRORS)), TOLD)
    assert report.included == (count - 2, count - 1)
    for client, name in enumerate(ERRORS):
        (said,) = [one for one in caplog.messages if f"client {client} cannot train" in one]
        assert SECRET in said or name == "wordless"


def test_a_client_that_withdraws_in_a_worker_says_why():
    here = simulated(of_training("plain", withdraws), rounds=1, workers=2)
    assert here.history[0].refused == {FAULTY: "no money"}


@pytest.mark.parametrize(
    ("name", "on_failure"), [*((name, "raise") for name in AGGREGATORS), ("masked", "skip")]
)
def test_rounds_without_it_are_alike(name, on_failure):
    settings = of_training(name, Fails("value"))
    here, there = both(lambda: {**settings(), "on_failure": on_failure}, rounds=2)
    assert alike(here) == alike(there)
    assert here.included == OTHERS
    assert here.virtual_seconds == 0.0, "nobody waits for it"


def every_client_fails(model: nn.Module, records: TensorDataset, round: fl.ClientRound) -> None:
    raise ValueError(SECRET)


def test_a_round_without_clients_fails_as_on_failure_says():
    settings = of_training("masked", every_client_fails)
    with pytest.raises(RoundError) as caught:
        simulated(settings, rounds=1)
    assert caught.value.refused == dict.fromkeys(EVERYBODY, TOLD)
    assert SECRET not in str(caught.value)
    here, there = both(lambda: {**settings(), "on_failure": "skip"}, rounds=2)
    assert (here.failure, here.refused) == (there.failure, there.refused)
    assert here.failure


class Breaks(Mechanism):
    """An error in what a client makes of its update."""

    def __init__(self, name: str) -> None:
        self.name = name

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        if client == FAULTY:
            raise ERRORS[self.name]()
        return update


@pytest.mark.parametrize("error", sorted(ERRORS.keys() - {"wordless"}))
def test_a_mechanism_that_fails_on_a_client_leaves_it_out(error, caplog):
    here, there = both(lambda: {**of("masked")(), "mechanism": Breaks(error)})
    assert alike(here) == alike(there)
    assert here.included == OTHERS
    if error != "argument":
        assert here.refused == {FAULTY: UNTOLD}
        assert SECRET in caplog.text


START = "start"
"""Where a machine fails: there, or when it gets a message of a kind."""
WHERE = [
    *(("plain", START), ("chain", START), ("chain", "chain"), ("chain", "token")),
    *(("masked", kind) for kind in (START, "keys", "sealed", "survivors", "consents")),
    *(("sparse", kind) for kind in (START, "survivors")),
    *(("paillier", kind) for kind in (START, "key")),
]


def fails_at(name: str, kind: str, error: Callable[[], Exception]) -> Settings:
    """Returns settings with an aggregator whose machine of one client fails."""

    def settings() -> dict[str, object]:
        given = of(name)()
        usual = type(given["aggregator"])

        def client(
            self: Aggregator,
            round: Round,
            client: int,
            update: Vector,
        ) -> object:
            machine = usual.client(self, round, client, update)
            if client != FAULTY:
                return machine
            start, receive = machine.start, machine.receive

            def started(now: float) -> object:
                yield from start(now)
                if kind == START:
                    raise error()

            def received(message: Message, now: float) -> object:
                yield from receive(message, now)
                if message.kind == kind:
                    raise error()

            machine.start, machine.receive = started, received
            return machine

        given["aggregator"].__class__ = type(usual.__name__, (usual,), {"client": client})
        return given

    return settings


@pytest.mark.parametrize(("name", "kind"), WHERE)
def test_a_machine_that_fails_is_left_out_alike(name, kind, caplog):
    """What it answered before it failed, in the same turn, is not sent."""
    here, there = both(fails_at(name, kind, lambda: OSError(SECRET)))
    assert here.refused == there.refused
    assert here.refused.get(FAULTY, UNTOLD) == UNTOLD
    assert (here.included, here.vanished) == (there.included, there.vanished) or name == "chain"
    assert SECRET in caplog.text
    assert SECRET not in str(here)
    assert here.virtual_seconds == 0.0


@pytest.mark.parametrize("kind", [MessageError, CiphertextError, UpdateError])
def test_words_that_are_for_others_are_told(kind):
    here, there = both(fails_at("masked", "keys", lambda: kind("no such key")))
    assert here.refused == there.refused
    told = {FAULTY: UNTOLD if kind is CiphertextError else "no such key"}
    assert here.refused == told


def test_a_client_of_a_round_by_itself_is_left_out_too():
    given = {k: np.full(3, k + 1.0) for k in range(4)}
    aggregator = fails_at("masked", "sealed", lambda: ZeroDivisionError(SECRET))()["aggregator"]
    outcome = aggregate(aggregator, given)
    assert outcome.included == (0, 1, 3)
    np.testing.assert_allclose(outcome.aggregate.mean, np.full(3, (1 + 2 + 4) / 3), atol=2**-14)
    assert [refusal.client for refusal in outcome.refusals] == [FAULTY]
    assert outcome.vanished == ()
