"""Benchmarks of noise and scale: what they rest on, at small size."""

import os

import pytest

from benchmarks.federated.leakage.command import _noised
from benchmarks.federated.leakage.images import digits
from benchmarks.federated.scale.budgets import row
from benchmarks.federated.scale.command import flower, graph, main, ours
from benchmarks.federated.scale.large import Setting, perform
from benchmarks.federated.scale.peers import main as peers
from benchmarks.federated.scale.simulated import WAYS
from tests.helpers.refused import refused

FLWR_PYTHON, PFL_PYTHON = map(os.environ.get, ("FLWR_PYTHON", "PFL_PYTHON"))


def test_noise_of_a_large_variance_hides_what_none_shows():
    images = digits()
    grey = float(images.x[7].var(correction=0))
    errors = [
        _noised(images, 7, "Gaussian", variance, 30, 1).error(images.x[7])
        for variance in (0.0, 1e-1)
    ]
    assert errors[0] < 0.1 * grey < errors[1]


def test_scale_has_the_degree_of_the_graph_and_the_exact_mean():
    assert graph(1000) == (73, 37)
    assert graph(8) == (7, 6)
    found = ours(8, 50)
    assert found["error"] < 2.0**-16
    assert found["client"] > 0.0
    assert found["bytes"] > 50 * 4 * 2


def test_a_large_round_counts_its_parties_apart():
    """The server is a process of its own; clients that are lost are in no mean."""
    values = 2000
    setting = Setting(clients=20, values=values, corrupt=0.1, dropping=0.2)
    done = perform(setting)
    found = row(setting, done)
    assert set(done.served.aggregate.included) == set(range(20)) - setting.lost()
    assert found["in the sum"] == 16
    assert found["largest error"] < 2.0**-18
    assert 5 < found["kB beyond values"] <= found["kB beyond values, most"]
    assert 0 < found["client, CPU s"] <= found["client, CPU s, most"]
    assert found["server, CPU s"] > 0
    assert 50 < found["server, MB before"] <= found["server, MB at most"]


def test_python_without_flower_is_refused():
    with refused("flower_python", "file", value="/no/python"):
        main(clients=[3], values=5, flower_python="/no/python")


@pytest.mark.skipif(FLWR_PYTHON is None, reason="FLWR_PYTHON names no interpreter that has flwr")
def test_flowers_functions_give_the_mean():
    found = flower(str(FLWR_PYTHON), 6, 40, 6, 4)
    assert found["error"] < 1e-4
    assert found["bytes"] > 40 * 8


def test_own_rounds_are_measured_and_masks_change_no_accuracy():
    (table,) = peers.__wrapped__(clients=5, rounds=2)
    plain, masked = table.rows
    assert (plain["way"], masked["way"]) == ("ours", "ours, masked")
    assert abs(plain["accuracy, %"] - masked["accuracy, %"]) < 100 * 3 / 297
    for own in table.rows:
        assert own["start, s"] > 0
        assert own["seconds a round"] > 0
        assert own["CPU s a round"] >= 0  # in hundredths
        assert own["MB at most"] > 100


@pytest.mark.long
@pytest.mark.skipif(None in (FLWR_PYTHON, PFL_PYTHON), reason="no Python has flwr, or pfl")
def test_simulated_clients_of_peers_train_too():
    """Orders of batches differ, and with them accuracies: guesses have 10 %."""
    pythons = {"flower_python": FLWR_PYTHON, "pfl_python": PFL_PYTHON}
    (table,) = peers.__wrapped__(clients=20, rounds=3, **pythons)
    assert [own["way"] for own in table.rows] == [*WAYS]
    for own in table.rows:
        assert own["accuracy, %"] > 30
        assert own["CPU s a round"] > 0
        assert own["start, s"] > 0
