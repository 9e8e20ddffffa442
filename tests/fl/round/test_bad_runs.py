"""Bad input of whole runs: data, model and updates, and a server that announces nonsense."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import fl
from extensions.errors import RoundError
from fl.protocols import SERVER, Mechanism, Message, Output, Refusal, Round, Value, Vector
from fl.training.session import SessionClient
from fl.weights import get_weights
from tests.fl.conformance.arenas import ALONE, ARENAS
from tests.helpers.refused import refused

X = np.random.default_rng(3).normal(size=(24, 5)).astype(np.float32)
Y = np.arange(24) % 3
WRONG = 2


def model() -> nn.Module:
    torch.manual_seed(4)
    return nn.Linear(5, 3)


def clients() -> list[tuple[np.ndarray, np.ndarray]]:
    return [(X[k::6], Y[k::6]) for k in range(6)]


def run_of(**settings: object) -> fl.FederatedAveraging:
    given: dict[str, object] = {
        "model": model(),
        "clients": clients(),
        "aggregator": fl.PlainAggregator(),
        "client_fraction": 1.0,
        "weighting": "equal",
        **settings,
    }
    return fl.FederatedAveraging(**given)  # type: ignore[arg-type]


class Faulty(Mechanism):
    """One client has another update than it trained; or the server another mean."""

    def __init__(self, fault: Callable[[Vector], Vector], *, of_mean: bool = False) -> None:
        self.fault, self.of_mean = fault, of_mean

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        return self.fault(update) if client == WRONG and not self.of_mean else update

    def server(self, mean: Vector, round: Round, included: tuple[int, ...]) -> Vector:
        return self.fault(mean) if self.of_mean else mean


FAULTS = {
    "NaN": (lambda update: update * np.nan, "values of the update are NaN or infinite"),
    "infinity": (lambda update: np.append(update[1:], np.inf), "values of the update are NaN"),
    "shape": (lambda update: update[1:], "an update of shape (17,), not (18,)"),
    "range": (lambda update: update + 1e39, "beyond"),
}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("fault", FAULTS)
def test_client_with_a_wrong_update_is_left_out_by_name(name, fault):
    """The others' mean is exact: to half a step of the fixed point, and to single precision."""
    change, reason = FAULTS[fault]
    step = {"batch_size": None, "local_epochs": 1}
    run = run_of(aggregator=ARENAS[name].make(), mechanism=Faulty(change), **step)
    (report,) = run.fit(1, progress=False)
    assert report.included == (0, 1, 3, 4, 5)
    assert list(report.refused) == [WRONG]
    assert reason in report.refused[WRONG]
    others = run_of(clients=[own for k, own in enumerate(clients()) if k != WRONG], **step)
    others.fit(1, progress=False)
    np.testing.assert_allclose(
        get_weights(run.model), get_weights(others.model), rtol=0, atol=2.0**-17 + 2.0**-22
    )


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda mean: mean[1:], r"the mean has shape \(17,\), not \(18,\)"),
        (lambda mean: mean[:1], r"the mean has shape \(1,\), not \(18,\)"),
        (lambda mean: mean * np.nan, "the new model would hold NaN or infinity"),
        (lambda mean: mean + 1e39, "the new model would hold NaN or infinity"),
    ],
)
@pytest.mark.parametrize("exchange", ["delta", "weights"])
def test_wrong_mean_fails_the_round_and_leaves_the_model_alone(fault, reason, exchange):
    run = run_of(mechanism=Faulty(fault, of_mean=True), exchange=exchange)
    with pytest.raises(RoundError, match=f"round 1: {reason}"):
        run.fit(1, progress=False)
    np.testing.assert_array_equal(get_weights(run.model), get_weights(model()))


def with_client(x: np.ndarray, y: np.ndarray) -> dict[str, object]:
    return {"clients": [own if k != WRONG else (x, y) for k, own in enumerate(clients())]}


def broken() -> nn.Module:
    wrong = model()
    with torch.no_grad():
        next(wrong.parameters())[0, :2] = torch.tensor([torch.nan, torch.inf])
    return wrong


@pytest.mark.parametrize(
    ("settings", "named", "code", "value"),
    [
        (with_client(X, Y + 1), "labels of client 2", "data", "1..3"),
        (with_client(X, Y - 1), "labels of client 2", "data", "-1..1"),
        (with_client(X, Y / 2), "labels of client 2", "type", "torch.float64"),
        (with_client(X[:, 1:], Y), "records of client 2", "shape", "shape (4,)"),
        (with_client(X[:0], Y[:0]), "client 2", "shape", "0 records, 0 labels"),
        (with_client(X, Y[1:]), "client 2", "shape", "24 records, 23 labels"),
        ({"model": broken()}, "model", "range", "2 NaN or infinite weights"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_before_a_round(settings, named, code, value):
    with refused(named, code, value):
        run_of(**settings)


def test_test_set_that_does_not_fit_is_refused_before_a_round():
    run = run_of()
    with refused("labels of test_set", "data", value="3..5"):
        run.fit(1, (X, Y + 3), progress=False)
    with refused("records of test_set", "shape", "shape (2,)"):
        run.fit(1, (X[:, :2], Y), progress=False)
    assert len(run.history) == 0


def test_labels_of_another_loss_and_of_bytes_are_taken():
    bytes_ = [(x, y.astype(np.uint8)) for x, y in clients()]
    targets = [(x, x[:, :3]) for x, _ in clients()]
    for settings in ({"clients": bytes_}, {"clients": targets, "loss": nn.functional.mse_loss}):
        run = run_of(**settings)
        assert run.fit(1, progress=False)[0].refused == {}


BEGIN = {"clients": np.array([1, 3]), "weights": np.array([1, 1])}


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("model", {}, "'model' of the server must hold an array 'values'"),
        ("model", {"values": np.zeros(18)}, "'model' of the server must hold an array 'values'"),
        ("begin", {}, "'begin' of the server must hold an array 'clients'"),
        ("begin", {**BEGIN, "weights": np.array([1])}, "'begin' of the server must hold an arr"),
        ("begin", {**BEGIN, "clients": np.array([3, 3])}, "'begin' lists a client twice"),
        ("begin", {**BEGIN, "weights": np.array([1, 0])}, "weight of client 3 must be"),
        ("begin", {**BEGIN, "clients": np.array([1, 2])}, "in which this client takes no part"),
    ],
)
def test_client_withdraws_from_a_server_that_announces_nonsense(kind, body, reason):
    alone = Round(number=1, size=18, weights={3: 1})
    client = SessionClient(alone, 3, fl.PlainAggregator(), lambda weights: np.zeros(18), 0.0)

    def told(kind: str, body: dict[str, Value]) -> list[Output]:
        sent = Message(round=1, sender=SERVER, receiver=3, kind=kind, body=body)
        return list(client.receive(sent, 0.0))

    if kind == "begin":
        told("model", {"values": np.zeros(18, np.float32)})
        list(client.expire("training", 0.0))
    (refusal,) = told(kind, body)
    assert isinstance(refusal, Refusal)
    assert refusal.client == 3
    assert reason in refusal.reason
