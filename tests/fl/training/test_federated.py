"""Federated averaging: exact where mathematics says so, and equal however it is run."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss, nll_loss

import fl
from extensions.errors import ArgumentError, RoundError, UpdateError, WorkerLostError
from extensions.privacy.accounting import Ledger
from fl.clients import ClientRound, LocalSGD
from fl.protocols import (
    SERVER,
    Aggregate,
    Aggregator,
    Leaks,
    Machine,
    Mechanism,
    Message,
    Outcome,
    Output,
    Party,
    RingVector,
    Round,
    Vector,
    inherent_leaks,
)
from fl.simulation import DropOut, Link, Network
from fl.training.workers import Trainer
from fl.weights import get_weights, set_weights
from tests.helpers.arrays import arrays_of
from tests.helpers.federated.tasks import MortalCrossEntropy
from tests.helpers.paths import ROOT
from tests.helpers.refused import refused

X, Y = load_digits(return_X_y=True)
TRAIN, TEST = (X[:1500] / 16, Y[:1500]), (X[1500:] / 16, Y[1500:])
FEW = (X[:60] / 16, Y[:60])
SMALL = {
    "aggregator": fl.PlainAggregator(),
    "client_fraction": 0.5,
    "local_epochs": 2,
    "batch_size": 4,
}


def mlp(hidden: int = 8) -> nn.Module:
    torch.manual_seed(1)
    return fl.models.mlp(64, hidden, 10)


def small(model: nn.Module | None = None, **settings: object) -> fl.FederatedAveraging:
    given: dict[str, object] = {
        "model": model or mlp(),
        "clients": fl.partition(FEW, 6),
        **SMALL,
        **settings,
    }
    return fl.FederatedAveraging(**given)  # type: ignore[arg-type]


def fitted(rounds: int, **settings: object) -> fl.FederatedAveraging:
    run = small(**settings)
    run.fit(rounds, FEW, progress=False)
    return run


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_on_a_gpu_is_trained_and_tested_there() -> None:
    here, there = fitted(3), fitted(3, model=mlp().cuda())
    assert next(there.model.parameters()).is_cuda
    np.testing.assert_allclose(get_weights(there.model), get_weights(here.model), atol=1e-5)
    assert there.history[-1].loss == pytest.approx(here.history[-1].loss, abs=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_seed_decides_dropout_on_a_gpu_too() -> None:
    def dropping() -> nn.Module:
        return nn.Sequential(mlp(), nn.Dropout(0.5)).cuda()

    found = [get_weights(fitted(2, model=dropping(), workers=n).model) for n in (1, 1, 2)]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-5)


def centralised(model: nn.Module, steps: int, lr: float) -> nn.Module:
    x, y = torch.tensor(FEW[0], dtype=torch.float32), torch.tensor(FEW[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


def test_digits_are_learned():
    run = fl.FederatedAveraging(
        model=mlp(32),
        clients=fl.partition(TRAIN, 20),
        client_fraction=0.2,
        lr=0.1,
        aggregator=fl.PlainAggregator(),
    )
    history = run.fit(10, TEST, progress=False)
    assert history.accuracy is not None
    assert history.accuracy > 0.75
    assert history[9].loss < 0.5 * history[0].loss
    assert history.rounds_to(0.6) in range(2, 10)
    assert history.rounds_to(1.0) is None


def test_one_client_with_whole_batches_is_centralised_sgd_bit_by_bit():
    whole = {"local_epochs": 1, "batch_size": None, "lr": 0.3, "cohorts": False}
    run = small(clients=[FEW], exchange="weights", **whole)
    run.fit(3, progress=False)
    expected = get_weights(centralised(mlp(), 3, 0.3))
    np.testing.assert_array_equal(get_weights(run.model), expected)


@pytest.mark.parametrize("exchange", ["delta", "weights"])
def test_one_step_of_all_clients_weighted_by_records_is_centralised_sgd(exchange):
    clients = [(FEW[0][a:b], FEW[1][a:b]) for a, b in [(0, 5), (5, 25), (25, 60)]]
    settings = {"client_fraction": 1.0, "local_epochs": 1, "batch_size": None, "lr": 0.3}
    run = small(clients=clients, exchange=exchange, **settings)
    run.fit(3, progress=False)
    expected = get_weights(centralised(mlp(), 3, 0.3))
    np.testing.assert_allclose(get_weights(run.model), expected, rtol=0, atol=1e-6)
    equal = small(clients=clients, exchange=exchange, weighting="equal", **settings)
    equal.fit(3, progress=False)
    assert np.max(np.abs(get_weights(equal.model) - expected)) > 1e-3


def test_run_that_was_saved_and_loaded_equals_one_that_was_not(tmp_path):
    whole = fitted(4)
    first = small()
    first.fit(2, FEW, checkpoint=tmp_path / "run.npz", progress=False)
    second = small()
    second.load(tmp_path / "run.npz")
    second.fit(2, FEW, progress=False)
    assert second.history == whole.history
    np.testing.assert_array_equal(get_weights(second.model), get_weights(whole.model))
    assert (tmp_path / "run.npz").stat().st_mode & 0o777 == 0o600
    assert len({report.selected for report in whole.history}) > 1


def test_run_of_so_many_rounds_does_those_it_lacks(tmp_path):
    path, whole = tmp_path / "run.npz", fitted(3)
    first = small(rounds=3)
    first.fit(1, FEW, checkpoint=path, progress=False)
    second = small(rounds=3)
    second.load(path)
    for _ in range(2):
        assert second.fit(test_set=FEW, progress=False) == whole.history
    assert len(second.fit(1, progress=False)) == 4
    with refused("rounds", "missing", None):
        whole.fit(progress=False)


def test_state_of_a_run_of_another_model_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    fitted(1).save(path)
    other = small(model=fl.models.mlp(64, 9, 10))
    with refused("parameters", "value", value=775):
        other.load(path)


@pytest.mark.parametrize(
    "settings",
    [{"seed": np.int64(1)}, {"lr": np.float32(0.5)}, {"facts": {"files": np.arange(3)[1]}}],
)
def test_numbers_of_numpy_are_settings_as_pythons_are(settings, tmp_path):
    run = small(**settings)
    run.fit(1, progress=False, checkpoint=tmp_path / "run.npz")
    small(
        **{name: value.item() if name != "facts" else value for name, value in settings.items()}
    ).load(tmp_path / "run.npz")


def test_facts_that_json_has_not_are_refused(tmp_path):
    with refused("settings", "type", "PosixPath"):
        small(facts={"files": tmp_path})


GRID = fl.FixedPoint(frac_bits=20)
OTHERS = {
    "loss": ({}, {"loss": nll_loss}),
    "aggregator.min_clients": (
        {"aggregator": fl.MaskedAggregator()},
        {"aggregator": fl.MaskedAggregator(min_clients=3)},
    ),
    "aggregator.colluders": (
        {"aggregator": fl.MaskedAggregator(threshold=0.9)},
        {"aggregator": fl.MaskedAggregator(threshold=0.9, colluders=1)},
    ),
    "aggregator.threshold": (
        {"aggregator": fl.MaskedAggregator()},
        {"aggregator": fl.MaskedAggregator(threshold=0.9)},
    ),
    "aggregator.graph": (
        {"aggregator": fl.MaskedAggregator()},
        {"aggregator": fl.MaskedAggregator(graph=fl.SparseGraph())},
    ),
    "aggregator.lanes": (
        {"aggregator": fl.MaskedAggregator(fixed_point=GRID), "weighting": "equal"},
        {"aggregator": fl.MaskedAggregator(fixed_point=GRID, lanes=2), "weighting": "equal"},
    ),
    "aggregator.fixed_point": (
        {"aggregator": fl.ChainAggregator()},
        {"aggregator": fl.ChainAggregator(GRID)},
    ),
    "aggregator.chains": (
        {"aggregator": fl.ChainAggregator(chains=2)},
        {"aggregator": fl.ChainAggregator(chains=3)},
    ),
    "aggregator.edges": (
        {"aggregator": fl.ChainAggregator(chains=2)},
        {"aggregator": fl.ChainAggregator(chains=2, edges=1)},
    ),
    "aggregator.key_bits": (
        {"aggregator": fl.PaillierAggregator(key_bits=512, insecure_small_key=True)},
        {"aggregator": fl.PaillierAggregator(key_bits=576, insecure_small_key=True)},
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_state_of_a_run_of_another_loss_or_aggregator_is_refused(name, tmp_path):
    given, changed = ({"client_fraction": 1.0, **each} for each in OTHERS[name])
    small(**given).save(tmp_path / "run.npz")
    small(**given).load(tmp_path / "run.npz")
    names = ("loss", "aggregator.min_clients") if name == "aggregator.chains" else (name,)
    with pytest.raises(ArgumentError) as caught:
        small(**changed).load(tmp_path / "run.npz")
    assert caught.value.argument in names


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_records_held_out_are_tried_before_the_first_round():
    """Labels of two kinds have no accuracy in common; some are not what the loss takes."""
    one_hot = np.eye(10, dtype=np.float32)[FEW[1]]
    run = small()
    with refused("own_tests", "data", "those of clients [1]"):
        run.fit(1, own_tests={0: FEW, 1: (FEW[0], one_hot)}, progress=False)
    run = small(clients=fl.partition((FEW[0], one_hot), 6), loss=mse_loss)
    with refused("labels of test_set", "data", "torch.int64 of shape (60,)"):
        run.fit(1, FEW, progress=False)
    assert len(run.history) == 0
    run.fit(1, (FEW[0], one_hot), own_tests={1: (FEW[0], one_hot)}, progress=False)


def test_how_long_a_server_waits_is_no_other_run(tmp_path):
    small(aggregator=fl.PlainAggregator(timeout=5.0)).save(tmp_path / "run.npz")
    small(aggregator=fl.PlainAggregator(timeout=9.0)).load(tmp_path / "run.npz")


def test_state_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    fitted(1).save(path)
    with refused("lr", "value", value=0.2):
        small(lr=0.2).load(path)
    whole = path.read_bytes()
    entries = arrays_of(path)
    np.savez(path, **{**entries, "weights": entries["weights"][1:]})
    with refused("parameters", "value", value=681):
        small().load(path)
    np.savez(path, **{**entries, "settings": "[]"})
    with refused("path", "file", str(path)):
        small().load(path)
    path.write_bytes(whole[:200])
    with refused("path", "file", str(path)):
        small().load(path)
    with refused("path", "file", str(tmp_path / "none.npz")):
        small().load(tmp_path / "none.npz")


def test_seed_decides_and_the_callers_generator_is_left_alone():
    model = fl.models.cnn_mnist()
    images = (np.random.default_rng(0).random((12, 1, 28, 28)), np.arange(12) % 10)
    settings = {"model": model, "clients": fl.partition(images, 3), "lr": 0.01}
    torch.manual_seed(5)
    one, same, other = small(**settings), small(**settings), small(seed=1, **settings)
    one.fit(1, progress=False)
    after = torch.rand(1)
    torch.manual_seed(6)
    same.fit(1, progress=False)
    torch.manual_seed(5)
    assert torch.rand(1) == after
    np.testing.assert_array_equal(get_weights(one.model), get_weights(same.model))
    other.fit(1, progress=False)
    assert np.any(get_weights(other.model) != get_weights(one.model))


def test_workers_change_nothing_and_a_lost_one_is_an_error(tmp_path):
    end = tmp_path / "end"

    def end_in_round_3(number: int) -> list[DropOut]:
        if number == 3:
            end.touch()
        return []

    loss = MortalCrossEntropy(end, os.getpid())
    run = small(workers=2, loss=loss, drop_outs=end_in_round_3)
    with pytest.raises(WorkerLostError, match="a worker died while clients were trained"):
        run.fit(3, FEW, progress=False)
    alone = fitted(2, cohorts=False)
    assert run.history == alone.history
    np.testing.assert_array_equal(get_weights(run.model), get_weights(alone.model))


def test_workers_need_what_can_be_sent_to_them():
    with refused("model, loss, train", "type", value="Sequential"):
        small(workers=2, loss=lambda outputs, labels: outputs.sum()).fit(1, progress=False)


def test_client_whose_training_diverges_is_left_out_by_name():
    clients = fl.partition(FEW, 6)
    clients[2].tensors[0][0, 0] = np.inf
    run = small(clients=clients, client_fraction=1.0)
    (report,) = run.fit(1, progress=False)
    assert report.included == (0, 1, 3, 4, 5)
    assert list(report.refused) == [2]
    assert report.refused[2].endswith("values of the update are NaN or infinite")
    assert np.all(np.isfinite(get_weights(run.model)))


def test_round_that_fails_is_named_or_skipped_and_leaves_the_model_alone():
    clients = [(FEW[0] * np.nan, FEW[1]) for _ in range(2)]
    before = get_weights(mlp())
    run = small(clients=clients, client_fraction=1.0)
    with pytest.raises(
        RoundError, match=r"round 1: 0 clients are ready, of at least 1\. Left out: "
    ):
        run.fit(1, progress=False)
    assert set(run.history[0].refused) == {0, 1}
    skipping = small(clients=clients, client_fraction=1.0, on_failure="skip")
    history = skipping.fit(2, progress=False)
    assert [report.failure for report in history] == ["0 clients are ready, of at least 1."] * 2
    np.testing.assert_array_equal(get_weights(skipping.model), before)


def test_a_round_that_many_leave_names_ten_and_keeps_all():
    error = RoundError(3, "too few.", dict.fromkeys(range(1000), "x" * 500))
    assert len(error.refused) == 1000
    assert len(str(error)) < 6000
    assert str(error).endswith("x; and 990 more;")


@pytest.mark.parametrize(
    ("drop_out", "included", "reason", "seconds"),
    [
        (DropOut(4, "ready"), (0, 1, 2, 3, 5), "not trained within 20 s", 21.0),
        (DropOut(4, "ready", "after"), (0, 1, 2, 3, 5), "no update within 9 s", 11.0),
        (DropOut(4, "update"), (0, 1, 2, 3, 5), "no update within 9 s", 11.0),
        (DropOut(4, "update", "after"), (0, 1, 2, 3, 4, 5), None, 3.0),
    ],
)
def test_drop_out_at_every_stage(drop_out, included, reason, seconds):
    network = Network(server=Link(delay=0.5))
    run = small(
        client_fraction=1.0,
        network=network,
        training_seconds=1.0,
        timeout=20.0,
        aggregator=fl.PlainAggregator(timeout=9.0),
        drop_outs=lambda number: [drop_out] if number == 2 else [],
    )
    first, second = run.fit(2, progress=False)
    assert (first.included, first.vanished, first.refused) == (tuple(range(6)), (), {})
    assert first.virtual_seconds == 3.0
    assert (second.included, second.vanished) == (included, (4,))
    assert second.refused == ({4: reason} if reason else {})
    assert second.virtual_seconds == seconds


def test_bytes_are_those_of_the_messages():
    run = small(client_fraction=1.0, transcript="sizes")
    (report,) = run.fit(1, progress=False)
    size = get_weights(run.model).size
    assert run.outcome is not None
    kinds = {entry.message.kind: entry.size for entry in run.outcome.transcript}
    assert kinds.keys() == {"model", "ready", "begin", "update"}
    assert kinds["update"] == 4 * size + 24
    assert kinds["model"] == 4 * size + 23
    assert report.bytes_up == 6 * (kinds["ready"] + kinds["update"])
    assert report.bytes_down == 6 * (kinds["model"] + kinds["begin"])
    assert report.bytes_total == report.bytes_up + report.bytes_down


class Clipping(Mechanism):
    """Clips updates to norm 1, adds 1 to the mean, and keeps a ledger; client 3 will not."""

    exchange = "delta"
    equal_weights = True

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.norms: list[float] = []

    def charge(self, round: Round, population: int) -> None:
        assert self.ledger is not None
        self.ledger.charge(f"{len(round.clients)} of {population}", epsilon=0.5, delta=0.0)

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        if client == 3:
            raise UpdateError("its budget is spent")
        return update / max(1.0, float(np.linalg.norm(update)) / 0.01)

    def server(self, mean: Vector, round: Round, included: tuple[int, ...]) -> Vector:
        self.norms.append(float(np.linalg.norm(mean)))
        return mean + 1.0


def test_mechanism_transforms_updates_and_mean_and_its_ledger_is_saved(tmp_path):
    settings = {"client_fraction": 1.0, "weighting": "equal"}
    run = fitted(2, mechanism=Clipping(), **settings)
    mechanism = run.mechanism
    assert isinstance(mechanism, Clipping)
    assert max(mechanism.norms) <= 0.01 * (1 + 1e-6)
    assert np.min(get_weights(run.model) - get_weights(mlp())) > 1.9
    assert [report.refused for report in run.history] == [{3: "its budget is spent"}] * 2
    run.save(tmp_path / "run.npz")
    other = small(mechanism=Clipping(), **settings)
    other.load(tmp_path / "run.npz")
    assert other.mechanism.ledger is not None
    assert other.mechanism.ledger.opened == ["6 of 6", "6 of 6"]
    assert other.mechanism.ledger.get_epsilon(1e-5) == 1.0
    with refused("weighting", "choice", value="records"):
        small(mechanism=Clipping(), weighting="records")
    with refused("exchange", "choice", value="weights"):
        small(mechanism=Clipping(), exchange="weights")


@pytest.mark.parametrize(
    "mechanism",
    [
        fl.CentralDP(noise_multiplier=1.0, clip=1.0),
        fl.DistributedDP(noise_multiplier=1.0, clip=1.0),
        fl.SignDS(sign_k=0.1),
        Clipping(),
        fl.LocalDP(epsilon=8.0, delta=1e-5, clip=1.0),
        Mechanism(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_weights_are_equal_where_a_mechanism_needs_it_and_nobody_says_otherwise(mechanism):
    aggregator = fl.MaskedAggregator(fixed_point=fl.FixedPoint(clip=64.0))
    given = {"mechanism": mechanism, "aggregator": aggregator, "client_fraction": 1.0}
    weighting = "equal" if mechanism.equal_weights else "records"
    assert small(**given).weighting == weighting
    assert small(**given).facts_of_run() == small(**given, weighting=weighting).facts_of_run()
    if mechanism.equal_weights:
        with refused("weighting", "choice", value="records"):
            small(**given, weighting="records")


EDGE = -2


class _Sender(Machine):
    def __init__(self, round: Round, client: int, values: RingVector) -> None:
        super().__init__(round, client)
        self._values = values

    def start(self, now: float) -> Iterable[Output]:
        yield self.send(EDGE, "summand", values=self._values)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        return ()


class _Edge(Machine):
    def __init__(self, round: Round) -> None:
        super().__init__(round, EDGE)
        self._rows: dict[int, RingVector] = {}

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        self._rows[message.sender] = message.array("values", np.uint64, (self.round.size,))
        if len(self._rows) == len(self.round.clients):
            total = np.sum(list(self._rows.values()), axis=0, dtype=np.uint64)
            yield self.send(SERVER, "sum", values=total)


class _Root(Machine):
    def __init__(self, round: Round, point: fl.FixedPoint) -> None:
        super().__init__(round, SERVER)
        self._point = point

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        total = message.array("values", np.uint64, (self.round.size,))
        weight = sum(self.round.weights.values())
        yield Aggregate(self._point.decode(total, weight), self.round.clients)


class EdgeAggregator(Aggregator):
    """A third party adds the updates up, in fixed point."""

    point = fl.FixedPoint()

    def server(self, round: Round) -> Machine:
        return _Root(round, self.point)

    def client(self, round: Round, client: int, update: Vector) -> Machine:
        return _Sender(round, client, self.point.encode(update, round.weights[client]))

    def others(self, round: Round) -> Mapping[Party, Machine]:
        return {EDGE: _Edge(round)}

    def leaks_to(self, coalition: fl.Coalition, outcome: Outcome) -> Leaks:
        return inherent_leaks(coalition, outcome.included)


@pytest.mark.parametrize("slow", [0.0, 30.0])
def test_further_party_takes_part_even_if_it_learns_late_that_the_round_began(slow):
    network = Network(links={(SERVER, EDGE): Link(delay=slow)})
    drop_outs = [DropOut(0, "ready")]
    run = fitted(1, aggregator=EdgeAggregator(), network=network, drop_outs=lambda _: drop_outs,
                 client_fraction=1.0, timeout=2.0, transcript="all")  # fmt: skip
    plain = fitted(1, drop_outs=lambda _: drop_outs, client_fraction=1.0)
    assert run.history[0].included == (1, 2, 3, 4, 5)
    assert run.history[0].virtual_seconds == 2.0 + slow
    difference = np.abs(get_weights(run.model) - get_weights(plain.model))
    assert np.max(difference) < 2.0**-24
    assert run.outcome is not None
    transcript = run.outcome.transcript
    edge = [message.kind for message in transcript.view(fl.Coalition(others={EDGE}))]
    assert sorted(edge) == ["begin", "sum", *["summand"] * 5]
    client = [message.kind for message in transcript.view(fl.Coalition({1}))]
    assert client == ["model", "ready", "begin", "summand"]


EMPTY = (np.zeros((0, 64)), np.zeros(0))


@pytest.mark.parametrize(
    ("settings", "argument", "code", "value"),
    [
        ({"client_fraction": 0.0}, "client_fraction", "range", 0.0),
        ({"client_fraction": 1.1}, "client_fraction", "range", 1.1),
        ({"local_epochs": 0}, "local_epochs", "range", 0),
        ({"batch_size": 0}, "batch_size", "range", 0),
        ({"lr": -1.0}, "lr", "range", -1.0),
        ({"exchange": "gradient"}, "exchange", "choice", "gradient"),
        ({"weighting": "none"}, "weighting", "choice", "none"),
        ({"on_failure": "ignore"}, "on_failure", "choice", "ignore"),
        ({"timeout": 0.0}, "timeout", "range", 0.0),
        ({"workers": 0}, "workers", "range", 0),
        ({"rounds": 0}, "rounds", "range", 0),
        ({"rounds": 1.5}, "rounds", "range", 1.5),
        ({"aggregator": "masked"}, "aggregator", "type", "masked"),
        ({"mechanism": Mechanism}, "mechanism", "type", Mechanism),
        ({"model": nn.Linear}, "model", "type", nn.Linear),
        ({"clients": [3]}, "client 0", "type", "int"),
        ({"seed": -1}, "seed", "range", -1),
        ({"clients": []}, "clients", "missing", []),
        ({"clients": [EMPTY]}, "client 0", "shape", "0 records, 0 labels"),
        ({"model": mlp().double()}, "model", "type", ["torch.float64"]),
        (
            {"aggregator": EdgeAggregator(), "client_fraction": 0.2},
            *("clients of a round", "range", 1),
        ),
    ],
)
def test_wrong_setting_is_refused_before_anything_is_sent(settings, argument, code, value):
    with refused(argument, code, value):
        small(**settings).fit(1, progress=False)


def test_weights_are_all_parameters_and_floating_point_buffers():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    assert get_weights(model).size == 3 * 2 + 2 + 4 * 2
    wanted = np.arange(16, dtype=np.float32)
    set_weights(model, wanted)
    np.testing.assert_array_equal(get_weights(model), wanted)
    assert model[1].running_var.tolist() == [14.0, 15.0]


def test_training_of_a_client_does_not_depend_on_who_was_trained_before():
    model = nn.Sequential(nn.Linear(64, 10), nn.BatchNorm1d(10, momentum=None))
    sgd = LocalSGD(epochs=2, batch_size=4, lr=0.1, loss=cross_entropy)
    records = {k: part.tensors for k, part in enumerate(fl.partition(FEW, 2))}
    rounds = {k: ClientRound(number=1, client=k, seed=7 + k) for k in records}
    with Trainer(model, sgd, workers=1) as trainer:
        both = trainer.train(get_weights(model), records, rounds)
        alone = trainer.train(get_weights(model), {1: records[1]}, rounds)
    np.testing.assert_array_equal(both(1), alone(1))


def test_import_needs_no_host():
    code = (
        "import sys, fl; fl.FederatedAveraging; hosts = {'crypten', 'tensorflow', 'tf_encrypted'}; "
        "assert not hosts & set(sys.modules), hosts & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    "aggregator",
    [
        fl.PlainAggregator(),
        fl.ChainAggregator(chains=2, edges=1),
        fl.MaskedAggregator(),
        fl.PaillierAggregator(key_bits=512, insecure_small_key=True),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize(("transcript", "rounds"), [("all", {3}), ("none", set())])
def test_nothing_of_a_round_but_its_outcome_is_kept(aggregator, transcript, rounds):
    earlier = {id(one): one for one in gc.get_objects() if type(one) is Message}  # of other tests
    run = fitted(1, aggregator=aggregator, client_fraction=1.0, transcript=transcript)
    gc.collect()
    gc.disable()
    try:
        assert len(run.fit(2, progress=False)) == 3
        kept = [one for one in gc.get_objects() if id(one) not in earlier]
    finally:
        gc.enable()
    assert {one.round for one in kept if type(one) is Message} == rounds
    assert [one for one in kept if issubclass(type(one), Machine)] == []
