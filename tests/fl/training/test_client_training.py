"""What clients and the server do with a model: the user's own training, optimizers, inputs."""

import csv
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, Subset, TensorDataset

import fl
from extensions.errors import ArgumentError, UpdateError
from extensions.privacy.accounting import Ledger
from fl.protocols import History, ServerOptimizer
from fl.weights import get_weights, set_weights
from tests.fl.training.test_federated import FEW, mlp, small
from tests.helpers.refused import refused

LINE = np.linspace(-1, 1, 40)[:, np.newaxis], 3 * np.linspace(-1, 1, 40)[:, np.newaxis] + 1


def linear() -> nn.Module:
    torch.manual_seed(1)
    return fl.models.logistic(64, 10)


class Momentum:
    """SGD with momentum, as torch's own, whose first use imports a compiler."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float) -> None:
        self.kept = [(parameter, torch.zeros_like(parameter)) for parameter in parameters]
        self.lr, self.momentum = lr, momentum

    def zero_grad(self) -> None:
        for parameter, _ in self.kept:
            parameter.grad = None

    def step(self) -> None:
        with torch.no_grad():
            for parameter, direction in self.kept:
                direction.mul_(self.momentum).add_(parameter.grad)
                parameter.sub_(direction, alpha=self.lr)


def proximal(
    model: nn.Module, records: TensorDataset, round: fl.ClientRound, optimizer: Any = Momentum
) -> None:
    """An optimizer with momentum, and FedProx's term."""
    began = [parameter.detach().clone() for parameter in model.parameters()]
    steps = optimizer(model.parameters(), lr=0.1, momentum=0.5)
    for x, y in DataLoader(records, batch_size=4, shuffle=True):
        steps.zero_grad()
        pairs = zip(model.parameters(), began, strict=True)
        near = sum(((p - q) ** 2).sum() for p, q in pairs)
        (cross_entropy(model(x), y) + 0.05 * near).backward()
        steps.step()


def plain_sgd(model: nn.Module, records: TensorDataset, round: fl.ClientRound) -> None:
    x, y = records.tensors
    for _ in range(2):
        for batch in torch.split(torch.randperm(len(x)), 4):
            model.zero_grad()
            cross_entropy(model(x[batch]), y[batch]).backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad


def odd_ones_withdraw(model: nn.Module, records: TensorDataset, round: fl.ClientRound) -> None:
    if round.client % 2:
        raise UpdateError("an odd number.")


def ran(rounds: int = 2, test: Any = FEW, **settings: Any) -> fl.FederatedAveraging:
    run = of_own(**settings)
    run.fit(rounds, test, progress=False)
    return run


def of_own(**settings: Any) -> fl.FederatedAveraging:
    given = {"model": mlp(), "clients": fl.partition(FEW, 6), "client_fraction": 0.5}
    return fl.FederatedAveraging(**{**given, "aggregator": fl.PlainAggregator(), **settings})


def test_the_users_own_training_that_is_local_sgd_gives_its_model():
    ours = small(local_epochs=2, batch_size=4)
    ours.fit(2, FEW, progress=False)
    own = ran(train=plain_sgd)
    # The same batches, but a - 0.1 b is rounded once in one and twice in the other.
    np.testing.assert_allclose(get_weights(own.model), get_weights(ours.model), rtol=0, atol=1e-6)


def test_an_optimizer_and_a_term_that_keeps_close_may_train():
    run = ran(8, model=linear(), train=proximal)
    assert run.history[-1].loss < 0.8 * run.history[0].loss


@pytest.mark.long
def test_torchs_own_optimizer_trains_the_same_in_workers():
    ours = ran(8, model=linear(), train=proximal)
    theirs = partial(proximal, optimizer=torch.optim.SGD)
    run, again = (ran(8, model=linear(), train=theirs, workers=workers) for workers in (1, 2))
    np.testing.assert_array_equal(get_weights(run.model), get_weights(again.model))
    np.testing.assert_allclose(get_weights(run.model), get_weights(ours.model), rtol=0, atol=1e-5)


def test_a_client_whose_training_withdraws_is_left_out_with_its_reason():
    run = ran(1, train=odd_ones_withdraw, client_fraction=1.0)
    assert run.history[0].included == (0, 2, 4)
    assert run.history[0].refused == dict.fromkeys((1, 3, 5), "an odd number.")


@pytest.mark.parametrize(
    ("settings", "message", "code", "value"),
    [
        ({"train": plain_sgd, "lr": 0.2}, "lr", "conflict", 0.2),
        ({"train": plain_sgd, "batch_size": None}, "batch_size", "conflict", None),
        (
            {"server_optimizer": fl.FedAvgM(), "exchange": "weights"},
            *("exchange", "choice", "weights"),
        ),
        ({"metrics": {"loss": mse_loss}}, "metrics", "value", ["loss"]),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message, code, value):
    with refused(message, code, value):
        of_own(**settings)


MEANS = [np.array([0.5, -0.25, 0.0]), np.array([0.25, 0.5, 1e-4])]


def adam(means, lr, beta1, beta2, tau, squares):
    """Algorithm 2 of Reddi et al., value by value."""
    x = m = np.zeros(3)
    v = np.full(3, tau**2)
    for mean in means:
        m = beta1 * m + (1 - beta1) * mean
        v = np.array([squares(a, b * b, beta2) for a, b in zip(v, mean, strict=True)])
        x = x + lr * m / (np.sqrt(v) + tau)
    return x


def yogi(before: float, square: float, beta: float) -> float:
    return before - (1 - beta) * square * math.copysign(1, before - square)


@pytest.mark.parametrize(
    ("optimizer", "wanted"),
    [
        (ServerOptimizer(lr=0.5), 0.5 * (MEANS[0] + MEANS[1])),
        (fl.FedAvgM(momentum=0.5), MEANS[0] + (MEANS[1] + 0.5 * MEANS[0])),
        (
            fl.FedAdam(lr=0.1),
            adam(MEANS, 0.1, 0.9, 0.99, 1e-3, lambda v, s, b: b * v + (1 - b) * s),
        ),
        (
            fl.FedYogi(lr=0.1),
            adam(
                MEANS,
                0.1,
                0.9,
                0.99,
                1e-3,
                lambda v, s, b: v - (1 - b) * s * math.copysign(1, v - s),
            ),
        ),
        (fl.FedAdagrad(lr=0.1), adam(MEANS, 0.1, 0.0, 0.99, 1e-3, lambda v, s, b: v + s)),
    ],
)
def test_a_server_optimizer_makes_the_steps_of_its_paper(optimizer, wanted):
    found, state = np.zeros(3), {}
    for mean in MEANS:
        change, state = optimizer.step(mean, state)
        found += change
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("optimizer", [fl.FedAvgM(), fl.FedAdam()])
def test_a_resumed_run_has_the_optimizers_state(optimizer, tmp_path):
    whole = ran(4, server_optimizer=optimizer)
    begun = ran(2, server_optimizer=optimizer)
    begun.save(tmp_path / "run.npz")
    resumed = of_own(server_optimizer=optimizer)
    resumed.load(tmp_path / "run.npz")
    resumed.fit(2, FEW, progress=False)
    np.testing.assert_array_equal(get_weights(whole.model), get_weights(resumed.model))
    other = of_own(server_optimizer=fl.FedAvgM(lr=0.5))
    with refused("server_optimizer", "value", {"name": "FedAvgM", "lr": 0.5, "momentum": 0.9}):
        other.load(tmp_path / "run.npz")


def test_statistics_take_the_mean_as_it_is():
    model = nn.Sequential(nn.Linear(64, 10), nn.BatchNorm1d(10))
    still = {"train": lambda model, records, round: add_one(model)}
    run = ran(1, model=model, server_optimizer=ServerOptimizer(lr=0.5), **still)
    change = get_weights(run.model) - get_weights(model)
    np.testing.assert_allclose(change[:670], 0.5, atol=1e-6)
    np.testing.assert_allclose(change[670:], 1.0, atol=1e-6)


def add_one(model: nn.Module) -> None:
    set_weights(model, get_weights(model) + 1)


def test_regression_is_trained_and_measured():
    def largest_error(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (outputs - labels).abs().max()

    run = fl.FederatedAveraging(
        model=nn.Linear(1, 1),
        clients=fl.partition(LINE, 4),
        aggregator=fl.PlainAggregator(),
        client_fraction=1.0,
        lr=0.5,
        loss=mse_loss,
        metrics={"largest error": largest_error},
    )
    run.fit(5, LINE, progress=False)
    last = run.history[-1]
    assert last.accuracy is None
    assert last.loss < 0.05
    found = run.model(torch.tensor(LINE[0], dtype=torch.float32)).detach().numpy()
    error = np.abs(found - LINE[1]).max()
    assert last.metrics == pytest.approx({"largest error": error}, rel=1e-3)


def test_labels_of_another_shape_than_the_outputs_are_refused():
    x, y = LINE
    with refused("labels of client 0", "shape", ()):
        of_own(model=nn.Linear(1, 1), clients=[(x, y[:, 0])], loss=mse_loss)


def test_data_sets_of_pairs_may_have_labels_of_any_one_shape():
    x, y = (torch.tensor(part, dtype=torch.float32) for part in LINE)
    pairs = Subset(TensorDataset(x, y), range(len(x)))
    own = of_own(model=nn.Linear(1, 1), clients=[pairs], loss=mse_loss)
    torch.testing.assert_close(own._records[0], (x, y))
    uneven = [(x[0], y[0]), (x[0], y[0].repeat(2))]
    with refused("client 0", "type", value="list"):
        of_own(model=nn.Linear(1, 1), clients=[uneven], loss=mse_loss)


def test_numbers_of_classes_in_columns_are_refused():
    x, y = FEW
    with refused("labels of client 0", "shape", (1,)):
        of_own(clients=[(x, y[:, None])])


def test_a_round_is_in_the_history_whatever_a_metric_does():
    run = of_own(metrics={"none": lambda outputs, labels: {}["none"]})
    with pytest.raises(KeyError):
        run.fit(1, FEW, progress=False)
    assert len(run.history) == 1


def test_a_metric_that_is_no_number_is_named():
    with refused("metrics['both']", "type", "another"):
        ran(1, metrics={"both": lambda outputs, labels: outputs[0]})


def test_integers_stay_integers_and_texts_are_hashed_to_them():
    texts = ["Good, very good film", "bad film", "good", "very bad: bad"] * 5
    labels = np.array([1, 0, 1, 0] * 5)
    rows = fl.tokens(texts, buckets=64, length=5)
    assert rows.shape == (20, 5)
    assert rows.dtype == np.int64
    assert rows[0, 0] == rows[0, 2] == rows[2, 0]
    assert (rows[2, 1:] == 0).all()
    assert 1 <= rows[rows > 0].min() <= rows.max() < 64
    model = nn.Sequential(nn.EmbeddingBag(64, 8, padding_idx=0), nn.Linear(8, 2))
    run = ran(
        20,
        (rows, labels),
        model=model,
        clients=fl.partition((rows, labels), 4),
        client_fraction=1.0,
    )
    assert run.history.accuracy == 1.0


def test_texts_and_integers_that_a_model_does_not_take_are_refused():
    with refused("texts", "type", value="str"):
        fl.tokens("a text")
    with refused("client 0", "type", "tuple of ndarray, ndarray"):
        of_own(clients=[(np.array(["a text"]), np.array([0]))])
    with refused("records of client 0", "shape", "torch.int64 of shape (64,)"):
        of_own(clients=[(np.zeros((2, 64), dtype=np.int64), np.array([0, 1]))])


def test_clients_own_records_are_measured_apart():
    own = dict(enumerate(fl.partition(FEW, 6)))
    del own[4]
    run = of_own()
    run.fit(1, FEW, own_tests=own, progress=False)
    last = run.history[0]
    assert last.of_clients.keys() == own.keys()
    for k, part in own.items():
        x, y = part.tensors
        right = (run.model(x).argmax(1) == y).float().mean()
        assert last.of_clients[k]["accuracy"] == pytest.approx(float(right))
    mean = sum(each["accuracy"] for each in last.of_clients.values()) / 5
    assert last.numbers()["clients/accuracy"] == pytest.approx(mean)
    assert History.from_json(run.history.to_json()).rounds == run.history.rounds
    with refused("own_tests", "range", [6]):
        run.fit(1, own_tests={6: own[0]}, progress=False)


def test_callbacks_are_told_of_every_round(tmp_path):
    seen = []
    table = tmp_path / "rounds.csv"
    told: Callable[..., None] = lambda history, model: seen.append(get_weights(model))  # noqa: E731
    run = of_own()
    run.fit(3, FEW, evaluate_every=2, callbacks=[told, fl.CSVWriter(table)], progress=False)
    assert len(seen) == 3
    np.testing.assert_array_equal(seen[-1], get_weights(run.model))
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["round"] for row in rows] == ["1", "2", "3"]
    assert [row["accuracy"] == "" for row in rows] == [True, False, False]
    assert float(rows[2]["accuracy"]) == run.history.accuracy
    assert [int(row["bytes_total"]) for row in rows] == [r.bytes_total for r in run.history]


def test_a_table_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with refused("path", "file", str(tmp_path / "file/x.csv")):
        of_own().fit(1, callbacks=[fl.CSVWriter(tmp_path / "file" / "x.csv")], progress=False)


RECORD_DP = {"noise_multiplier": 1.0, "max_grad_norm": 0.5, "lr": 0.5}


def test_record_dp_composes_the_steps_of_each_clients_rounds():
    mechanism = fl.RecordDP(**RECORD_DP, steps=3, sample_rate=0.25)
    run = ran(4, mechanism=mechanism)
    took_part = [sum(k in report.selected for report in run.history) for k in range(6)]
    ledger = Ledger()
    for _ in range(max(took_part)):
        ledger.record("local steps", noise_multiplier=1.0, sample_rate=0.25, steps=3)
    assert run.get_epsilon(1e-5) == pytest.approx(ledger.get_epsilon(1e-5))
    with refused("train", "conflict"):
        of_own(mechanism=mechanism, train=plain_sgd)


def test_a_step_of_record_dp_is_the_clipped_sum_with_noise_of_its_deviation():
    """One step on all of 50 records: 650 values with noise of z C / n around the clipped mean."""
    x, y = torch.tensor(FEW[0][:50], dtype=torch.float32), torch.tensor(FEW[1][:50])
    torch.manual_seed(3)
    model = nn.Linear(64, 10)
    before = get_weights(model)
    total = np.zeros(650)
    for row in range(50):
        parts = torch.autograd.grad(
            cross_entropy(model(x[row : row + 1]), y[row : row + 1]), list(model.parameters())
        )
        gradient = torch.cat([part.reshape(-1) for part in parts]).numpy().astype(np.float64)
        total += gradient * min(1.0, 0.5 / np.linalg.norm(gradient))
    training = fl.RecordDP(**RECORD_DP, steps=1, sample_rate=1.0).training
    training(model, TensorDataset(x, y), fl.ClientRound(number=1, client=0, seed=0))
    moved = (get_weights(model).astype(np.float64) - before) / -0.5 * 50
    noise = (moved - total) / 0.5
    # A mean of 650 and a mean square, each beyond 6 deviations in 2e-9 of runs.
    assert abs(noise.mean()) < 6 / math.sqrt(650)
    assert abs((noise**2).mean() - 1) < 6 * math.sqrt(2 / 650)


def test_a_gradient_of_record_dp_is_that_of_its_record_alone():
    """Buffers are as they were before each, whatever records came before."""
    seen = []

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 10)
            self.register_buffer("records", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((len(x), float(self.records)))
            self.records += 1
            return self.linear(x)

    training = fl.RecordDP(**RECORD_DP, steps=1, sample_rate=1.0).training
    x, y = torch.tensor(FEW[0][:5], dtype=torch.float32), torch.tensor(FEW[1][:5])
    training(Counting(), TensorDataset(x, y), fl.ClientRound(number=1, client=0, seed=0))
    assert seen == [(1, 0.0)] * 5


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_dropout_of_record_dp_is_not_that_of_the_public_seed(device):
    seen: list[torch.Tensor] = []

    class Seen(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(torch.rand(4, device=x.device) if self.training else torch.zeros(4))
            return super().forward(x)

    training = fl.RecordDP(**RECORD_DP, steps=1, sample_rate=1.0)
    for _ in range(2):
        model = Seen(64, 10).to(device)
        ran(1, None, model=model, mechanism=training, clients=[FEW], client_fraction=1.0)
    drawn = [tuple(each.tolist()) for each in seen if each.any()]
    assert len(drawn) == len(set(drawn)) + 1 == 122  # of 60 records, and one try, in each run


@pytest.mark.parametrize(
    "make",
    [
        lambda: fl.LocalDP(epsilon=8.0, delta=1e-5, clip=0.1),
        lambda: fl.LocalDP(epsilon=8.0, clip=0.1, noise="laplace"),
        lambda: fl.DistributedDP(noise_multiplier=1.0, clip=0.1),
        lambda: fl.SignDS(sign_k=0.1),
    ],
)
def test_update_that_is_no_number_counts_as_zeros_where_a_mechanism_hides_it(make):
    """A withdrawal would tell the server of it, whatever epsilon is."""
    clients = [(FEW[0] * np.nan, FEW[1]), FEW]
    settings = {
        "model": nn.Linear(64, 10),
        "clients": clients,
        "client_fraction": 1.0,
        "weighting": "equal",
        "aggregator": fl.MaskedAggregator(fixed_point=fl.FixedPoint(frac_bits=32, clip=64.0)),
    }
    run = fl.FederatedAveraging(mechanism=make(), **settings)
    run.fit(1, progress=False)
    assert (run.history[0].included, run.history[0].refused) == ((0, 1), {})
    round, sent = run._announced(1, (0, 1)), run._weights()
    hidden = run.update(round, 0, np.full_like(sent, np.nan), sent)
    assert np.isfinite(hidden).all()
    assert hidden.any()
    with pytest.raises(UpdateError, match="NaN or infinite"):
        run.update(round, 0, np.full_like(sent, np.nan), np.full_like(sent, np.inf))
    run = fl.FederatedAveraging(**settings | {"aggregator": fl.PlainAggregator()})
    run.fit(1, progress=False)
    assert list(run.history[0].refused) == [0]


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_record_whose_gradient_is_no_number_counts_for_nothing_and_withdraws_no_client(value):
    """A withdrawal would tell everybody of the record, whatever epsilon is."""
    x = FEW[0].copy()
    x[0] = value
    mechanism = fl.RecordDP(**RECORD_DP, steps=1, sample_rate=1.0)
    run = ran(1, mechanism=mechanism, clients=[(x, FEW[1]), FEW], client_fraction=1.0)
    assert (run.history[0].included, run.history[0].refused) == ((0, 1), {})
    assert np.isfinite(run._weights()).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [("noise_multiplier", 1e-300), ("max_grad_norm", 5e-324), ("lr", 1e39), ("lr", np.nan)],
)
def test_record_dp_beyond_its_integers_is_refused(name, value):
    """Gradients on a grid as fine as that noise wrapped, without a word."""
    with pytest.raises(ArgumentError) as caught:
        fl.RecordDP(**{**RECORD_DP, "steps": 1, "sample_rate": 1.0, name: value})
    assert caught.value.argument in ("noise", "noise_multiplier", "lr")
