"""Robust means: what they are, and that clients which send anything do not move them far."""

import numpy as np
import pytest
import torch
from torch import nn

import fl
from extensions.errors import ArgumentError
from fl.robust import BLOCK, RobustAggregator, median, multi_krum, trimmed_mean
from fl.weights import get_weights

HONEST = np.random.default_rng(0).normal(1.0, 0.1, (8, 50))


def attacked(share, size=50):
    return np.concatenate([HONEST[:, :size], np.full((share, size), 1e6)])


def test_they_are_the_papers_means():
    rows = np.array([[1.0, 9.0], [2.0, 0.0], [6.0, 1.0], [3.0, 2.0], [100.0, -50.0]])
    np.testing.assert_array_equal(median(rows), [3.0, 1.0])
    np.testing.assert_array_equal(trimmed_mean(rows, 1), [11 / 3, 1.0])
    np.testing.assert_allclose(trimmed_mean(rows, 0), rows.mean(axis=0))
    distances = ((rows[:, None] - rows) ** 2).sum(axis=2)
    score = [sum(sorted(np.delete(row, k))[:2]) for k, row in enumerate(distances)]
    expected = rows[np.sort(np.argsort(score)[:4])].mean(axis=0)
    np.testing.assert_allclose(multi_krum(rows, 1), expected)


def test_blocks_of_values_change_nothing():
    rows = np.random.default_rng(1).normal(size=(5, BLOCK + 7))
    np.testing.assert_array_equal(median(rows), np.median(rows, axis=0))


@pytest.mark.parametrize("attackers", [1, 2])
@pytest.mark.parametrize("of", [lambda u, f: median(u), trimmed_mean, multi_krum])
def test_a_minority_that_sends_anything_stays_within_the_honest_ones(of, attackers):
    found = of(attacked(attackers), attackers)
    assert (found >= HONEST.min(axis=0)).all()
    assert (found <= HONEST.max(axis=0)).all()


def test_krum_needs_more_than_twice_the_attackers():
    with pytest.raises(ArgumentError) as error:
        multi_krum(np.zeros((6, 2)), 2)
    assert (error.value.code, error.value.value) == ("range", 6)


CLIENTS = 10
BAD = (0, 5)


class Attack:
    """SGD whose result two clients of ten turn into something else."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, model, records, round):
        x, y = records.tensors
        bad = round.client in BAD
        if bad and self.kind == "labels":
            y = (y + 1) % 3
        before = [p.detach().clone() for p in model.parameters()]
        for _ in range(5):
            model.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.5 * p.grad
        times = {"sign": -4.0, "scale": 50.0}.get(self.kind, 1.0) if bad else 1.0
        with torch.no_grad():
            for p, start in zip(model.parameters(), before, strict=True):
                p.copy_(start + times * (p - start))


def data():
    draws = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (400,), generator=draws)
    x = 2.0 * nn.functional.one_hot(y, 3).float() + torch.randn((400, 3), generator=draws)
    return x, y


def accuracy(aggregator, kind):
    x, y = data()
    torch.manual_seed(0)
    run = fl.FederatedAveraging(
        model=nn.Linear(3, 3),
        clients=fl.partition((x[:300], y[:300]), CLIENTS),
        aggregator=aggregator,
        client_fraction=1.0,
        train=Attack(kind),
        weighting="equal",
    )
    return run.fit(8, test_set=(x[300:], y[300:]), progress=False).accuracy


@pytest.mark.parametrize("rule", ["median", "trimmed", "krum"])
@pytest.mark.parametrize("kind", ["sign", "scale", "labels", "none"])
def test_the_model_learns_with_a_fifth_of_the_clients_against_it(rule, kind):
    clean = accuracy(fl.PlainAggregator(), "none")
    assert clean > 0.8
    assert accuracy(RobustAggregator(rule=rule, attackers=0.2), kind) > clean - 0.05


def test_the_plain_mean_does_not_withstand_a_flipped_sign():
    assert accuracy(fl.PlainAggregator(), "sign") < 0.6


@pytest.mark.parametrize(
    ("given", "argument", "code"),
    [
        ({"rule": "mode"}, "rule", "choice"),
        ({"attackers": 0.5}, "attackers", "range"),
        ({"attackers": -0.1}, "attackers", "range"),
    ],
)
def test_arguments_are_checked(given, argument, code):
    with pytest.raises(ArgumentError) as error:
        RobustAggregator(**given)
    assert (error.value.argument, error.value.code) == (argument, code)


def test_a_run_with_too_few_clients_for_krum_is_told_before_it_begins():
    x, y = data()
    with pytest.raises(ArgumentError) as error:
        fl.FederatedAveraging(
            model=nn.Linear(3, 3),
            clients=fl.partition((x, y), 6),
            aggregator=RobustAggregator(rule="krum", attackers=0.4),
            client_fraction=1.0,
        )
    assert error.value.argument == "clients of a round"
    assert error.value.value == 6


def test_all_clients_count_alike_and_the_round_is_as_the_rule_says():
    updates = dict(enumerate(attacked(2)))
    weights = dict.fromkeys(updates, 1) | {9: 10**6}
    found = fl.protocols.aggregate(RobustAggregator(rule="median"), updates, weights)
    expected = np.median(attacked(2).astype(np.float32).astype(np.float64), axis=0)
    np.testing.assert_array_equal(found.aggregate.mean, expected)


@pytest.mark.parametrize(("rule", "left"), [("median", 1), ("krum", 2)])
def test_a_round_in_which_too_few_updates_are_left_fails_and_says_so(rule, left):
    x, y = data()
    lost = [fl.simulation.DropOut(party=k, kind="update") for k in range(left, CLIENTS)]
    run = fl.FederatedAveraging(
        model=nn.Linear(3, 3),
        clients=fl.partition((x, y), CLIENTS),
        aggregator=RobustAggregator(rule=rule),
        client_fraction=1.0,
        drop_outs=lambda number: lost,
        on_failure="skip",
    )
    before = get_weights(run.model)
    (report,) = run.fit(1, progress=False)
    assert "clients of a round" in report.failure
    assert report.included == ()
    np.testing.assert_array_equal(get_weights(run.model), before)
