"""Benchmarks of statements on chains, noise and scale: what they rest on, at small size."""

import os

import numpy as np
import pytest

import fl
from benchmarks.__main__ import Benchmarks
from benchmarks.federated.chain import time_limits
from benchmarks.federated.chain.exactness import UNIT, Jitter
from benchmarks.federated.chain.order import WAYS, _once
from benchmarks.federated.leakage.by_noise import _attacked
from benchmarks.federated.leakage.images import digits
from benchmarks.federated.scale.budgets import row
from benchmarks.federated.scale.command import flower, graph, main, ours
from benchmarks.federated.scale.large import Setting, perform
from tests.helpers.refused import refused

FLWR_PYTHON = os.environ.get("FLWR_PYTHON")


@pytest.mark.parametrize("way", WAYS[:4], ids=lambda way: way.title)
def test_processor_time_of_clients_and_server_is_counted_apart(way):
    client, server = _once(way.aggregator(), way.mechanism(), 3, 2000)
    assert client > 0.0
    assert server > 0.0


def test_fedavg_is_moved_by_half_a_unit_at_most():
    update, round = np.zeros(1000), fl.Round(number=2, size=1000, weights={4: 1, 5: 1})
    moved = Jitter().client(update, round, 4)
    assert 0.45 * UNIT < np.abs(moved).max() <= UNIT / 2
    assert not np.array_equal(moved, Jitter().client(update, round, 5))


def test_lists_reach_as_many_as_they_let(monkeypatch):
    monkeypatch.setattr(time_limits, "ROUNDS", 2)
    rows = {row["lists"]: row for row in time_limits.list_rows()}
    assert rows["everybody"]["take part, fewest"] == time_limits.CLIENTS
    assert rows["flooding, 1 hop of a grid"]["neighbours, mean"] == 4
    assert rows["neighbours of neighbours, a ring"]["neighbours, mean"] == 4
    assert all(2 <= row["take part, mean"] <= time_limits.CLIENTS for row in rows.values())


def test_noise_of_a_large_variance_hides_what_none_shows():
    images = digits()
    grey = float(images.x[7].var(correction=0))
    errors = [
        _attacked(images, 7, "Gaussian", variance, 30, 1).error(images.x[7])
        for variance in (0.0, 1e-1)
    ]
    assert errors[0] < 0.1 * grey < errors[1]


def test_scale_has_the_degree_of_the_graph_and_the_exact_mean():
    assert graph(1000) == (66, 31)
    assert graph(8) == (4, 2)
    found = ours(8, 50)
    assert found["error"] < 2.0**-16
    assert found["client"] > 0.0
    assert found["bytes"] > 50 * 4 * 2


def test_a_large_round_counts_its_parties_apart():
    """The server is a process of its own; clients that are lost are in no mean."""
    values = 2000
    setting = Setting(clients=20, values=values, against="lying", corrupt=0.1, dropping=0.2)
    done = perform(setting)
    found = row(setting, done)
    assert set(done.served.aggregate.included) == set(range(20)) - setting.lost()
    assert found["in the sum"] == 16
    assert found["largest error"] < 2.0**-18
    assert 5 < found["kB beyond values"] <= found["kB beyond values, most"]
    assert 0 < found["client, CPU s"] <= found["client, CPU s, most"]
    assert found["server, CPU s"] > 0
    assert 50 < found["server, MB before"] <= found["server, MB at most"]
    with refused("against", "choice", "honest"):
        Benchmarks.call("benchmarks", "fl-budgets", "--against", "honest")


def test_python_without_flower_is_refused():
    with refused("flower_python", "file", value="/no/python"):
        main(clients=[3], values=5, flower_python="/no/python")


@pytest.mark.skipif(FLWR_PYTHON is None, reason="FLWR_PYTHON names no interpreter that has flwr")
def test_flowers_functions_give_the_mean():
    found = flower(str(FLWR_PYTHON), 6, 40, 6, 4)
    assert found["error"] < 1e-4
    assert found["bytes"] > 40 * 8
