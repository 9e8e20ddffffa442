"""Clients trained at once: as each alone, by its own batches and no record of another."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

import fl
from extensions.errors import UpdateError
from fl.clients import ClientRound, LocalSGD
from fl.training import cohorts
from fl.training.cohorts import Cohorts
from fl.training.workers import Trainer
from fl.weights import get_weights

SIZES = (5, 1, 15, 8, 4)
SGD = LocalSGD(epochs=2, batch_size=4, lr=0.1, loss=cross_entropy)


def mlp(outputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, outputs))


def convolution():
    torch.manual_seed(0)
    folded = nn.Unflatten(1, (1, 2, 3))
    return nn.Sequential(folded, nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))


def partly_frozen():
    model = mlp()
    model[0].weight.requires_grad_(False)
    return model


def tied():
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3))
    model[1].weight = model[0].weight
    return model


def records(sizes=SIZES, targets=None):
    draws = torch.Generator().manual_seed(1)
    found = {}
    for client, rows in enumerate(sizes):
        x = torch.randn((rows, 6), generator=draws)
        y = torch.randint(0, 3, (rows,), generator=draws)
        found[client] = (x, y if targets is None else torch.rand((rows, targets), generator=draws))
    return found


def rounds(of):
    return {client: ClientRound(number=1, client=client, seed=100 + client) for client in of}


def both(model, training, own):
    """What becomes of each client in cohorts, and alone."""
    found = []
    for together in (True, False):
        with Trainer(model, training, 1, cohorts=True) as trainer:
            if not together:
                trainer._together = False
            trained = trainer.train(get_weights(model), own, rounds(own))
            assert trainer._together == together
            found.append({client: trained(client) for client in own})
    return found


@pytest.mark.parametrize("model", [mlp, convolution, partly_frozen, tied])
@pytest.mark.parametrize(
    "training",
    [
        SGD,
        replace(SGD, batch_size=None),
        replace(SGD, drop_last=True),
        replace(SGD, batch_size=1, epochs=1),
        replace(SGD, loss=nn.CrossEntropyLoss(label_smoothing=0.1)),
    ],
)
def test_a_cohort_is_as_each_client_alone(model, training):
    together, alone = both(model(), training, records())
    for client in together:
        np.testing.assert_allclose(together[client], alone[client], rtol=0, atol=1e-5)
        assert not np.allclose(together[client], get_weights(model()), atol=1e-4)


@pytest.mark.parametrize("loss", [mse_loss, binary_cross_entropy_with_logits, nn.SmoothL1Loss()])
def test_losses_of_targets_are_means_too(loss):
    together, alone = both(mlp(2), replace(SGD, loss=loss), records(targets=2))
    for client in together:
        np.testing.assert_allclose(together[client], alone[client], rtol=0, atol=1e-5)


def test_cohorts_are_of_at_most_so_many_clients(monkeypatch):
    monkeypatch.setattr(cohorts, "CLIENTS", 2)
    asked = []
    train = Cohorts.train
    monkeypatch.setattr(
        Cohorts, "train", lambda *given: asked.append(len(given[2])) or train(*given)
    )
    own = records()
    with Trainer(mlp(), SGD, 1, cohorts=True) as trainer:
        trained = trainer.train(get_weights(mlp()), own, rounds(own))
        tried = len(asked)
        trained(0)
        assert asked[tried:] == [2]
        trained(4)
        trained(3)
    assert asked[tried:] == [2, 1, 2]


WRONG = {
    "a label": lambda x, y: (x, torch.tensor([0, 1, 7, 0])),
    "a negative label": lambda x, y: (x, torch.tensor([0, -1, 0, 0])),
    "NaN": lambda x, y: (x.masked_fill(x == x[0, 0], torch.nan), y),
    "infinity": lambda x, y: (x.masked_fill(x == x[0, 0], torch.inf), y),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("hidden", [False, True])
def test_a_clients_bad_records_change_no_bit_of_the_others(wrong, hidden):
    own = records((6, 4, 9))
    spoilt = own | {1: WRONG[wrong](*own[1])}
    found = []
    for given in (own, spoilt):
        with Trainer(mlp(), SGD, 1, hidden=hidden, cohorts=True) as trainer:
            trained = trainer.train(get_weights(mlp()), given, rounds(given))
            found.append([trained(client) for client in given])
    for client in (0, 2):
        np.testing.assert_array_equal(found[0][client], found[1][client])
    if "label" not in wrong:
        assert not np.isfinite(found[1][1]).any()
    elif hidden:
        np.testing.assert_array_equal(found[1][1], get_weights(mlp()))
    else:
        assert isinstance(found[1][1], UpdateError)


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        return self.last(x) if x.sum() > 0 else -self.last(x)


def total(outputs, labels):
    return cross_entropy(outputs, labels, reduction="sum")


@pytest.mark.parametrize(
    ("model", "training"),
    [
        (lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)), SGD),
        (lambda: nn.Sequential(nn.Linear(6, 4), nn.Dropout(), nn.Linear(4, 3)), SGD),
        (Branching, SGD),
        (mlp, replace(SGD, loss=total)),
        (mlp, replace(SGD, loss=nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])))),
        (mlp, replace(SGD, loss=nn.CrossEntropyLoss(ignore_index=2))),
        (mlp, lambda model, own, round: SGD(model, own, round)),
        (lambda: nn.Sequential(nn.Linear(6, 10**4), nn.Linear(10**4, 3)), SGD),
    ],
    ids=[
        "BatchNorm",
        "Dropout",
        "branches",
        "a sum",
        "weights",
        "ignored",
        "a training of one's own",
        "large",
    ],
)
def test_what_no_cohort_takes_is_trained_one_by_one_and_why_is_said_once(model, training, caplog):
    own = records((4, 6, 8))
    with caplog.at_level(logging.INFO), Trainer(model(), training, 1, cohorts=True) as trainer:
        for _ in range(2):
            trained = trainer.train(get_weights(model()), own, rounds(own))
            assert all(isinstance(trained(client), np.ndarray) for client in own)
    assert not trainer._together
    assert len([each for each in caplog.records if "one by one" in each.message]) == 1


def test_the_trial_of_both_ways_draws_from_no_generator_of_the_users():
    own, model = records((4, 6)), mlp()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with Trainer(model, SGD, 1, cohorts=True) as trainer:
        trainer.train(get_weights(model), own, rounds(own))(1)
    torch.testing.assert_close(torch.rand(3), expected, rtol=0, atol=0)


@pytest.mark.parametrize("model", [mlp, convolution])
def test_workers_train_the_same_cohorts_to_the_last_bit(model):
    own = records(tuple(range(1, 20)) * 8)
    found = []
    for count in (1, 2, 3):
        with Trainer(model(), SGD, count, cohorts=True) as trainer:
            trained = trainer.train(get_weights(model()), own, rounds(own))
            assert len(list(trainer._groups(own))) == 3
            found.append([trained(client) for client in own])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_records_of_another_shape_train_beside_the_cohort():
    model = nn.Sequential(nn.AdaptiveAvgPool1d(6), nn.Linear(6, 3))
    own = records((4, 6, 5)) | {3: (torch.ones(4, 9), torch.zeros(4, dtype=torch.int64))}
    together, alone = both(model, SGD, own)
    for client in own:
        np.testing.assert_allclose(together[client], alone[client], rtol=0, atol=1e-5)


def test_a_cohort_has_as_many_clients_as_memory_allows(monkeypatch):
    found = Cohorts(mlp(), SGD)
    assert found.clients(records().values()) == cohorts.CLIENTS
    each = 4 * sum(p.numel() for p in mlp().parameters()) + 15 * 6
    monkeypatch.setattr(cohorts, "MOST_VALUES", 3 * each)
    assert found.clients(records().values()) == 3
    monkeypatch.setattr(cohorts, "MOST_VALUES", 1)
    assert found.clients(records().values()) == 1


def test_a_cohort_that_fails_after_all_trains_one_by_one(monkeypatch, caplog):
    own, model = records(), mlp()
    with Trainer(model, SGD, 1, cohorts=True) as trainer:
        assert trainer._are_together(own[0])
        monkeypatch.setattr(Cohorts, "train", lambda *given: 1 / 0)
        trained = trainer.train(get_weights(model), own, rounds(own))
        found = {client: trained(client) for client in own}
    monkeypatch.undo()
    _, alone = both(mlp(), SGD, own)
    for client in own:
        np.testing.assert_array_equal(found[client], alone[client])
    assert "one by one" in caplog.text


def test_a_run_says_whether_clients_train_together_and_is_the_same_within_the_bound():
    found = []
    for together in (False, True):
        asked = {} if together else {"cohorts": False}
        run = fl.FederatedAveraging(
            model=mlp(),
            clients=list(records().values()),
            aggregator=fl.PlainAggregator(),
            client_fraction=1.0,
            **asked,
        )
        run.fit(2, progress=False)
        assert run.facts_of_run().get("cohorts", True) == together
        found.append(get_weights(run.model))
    np.testing.assert_allclose(*found, rtol=0, atol=1e-5)
