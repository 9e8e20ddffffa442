"""Rounds on Flower: what the tables of `fl-flower` rest on, at small size."""

import os

import pytest

from benchmarks.__main__ import Benchmarks
from benchmarks.federated.flower.command import lost_rows, main, performed, process_rows
from benchmarks.federated.flower.setting import FEDAVG, OURS, SECAGG, STAGES, Setting
from tests.helpers.refused import refused

FLWR_PYTHON = os.environ.get("FLWR_PYTHON")
flower = pytest.mark.skipif(FLWR_PYTHON is None, reason="FLWR_PYTHON names no Python with flwr")


def test_arguments_are_refused_by_name():
    with refused("values", "range", value=250):
        main("python", values=[250])
    with refused("part", "choice", "bytes"):
        Benchmarks.call("benchmarks", "fl-flower", "--flower-python", "python", "--part", "bytes")
    with refused("flower_python", "file", value="/no/python"):
        performed("/no/python", [Setting(way=OURS, clients=3, values=200)])


@pytest.mark.parametrize("clients", [3, 5, 20, 50, 99])
def test_the_threshold_is_that_of_the_aggregator(clients):
    import fl

    setting = Setting(way=OURS, clients=clients, values=200)
    assert setting.threshold == fl.MaskedAggregator().needed(clients)


@flower
def test_all_ways_give_the_mean_and_count_what_they_send():
    settings = [Setting(way=way, clients=5, values=1000, rounds=2) for way in STAGES]
    for setting, found in zip(settings, performed(str(FLWR_PYTHON), settings), strict=True):
        assert found["included"] == [5, 5], setting
        assert found["error"] < 1e-4, setting
        assert found["bytes"] > 2 * 4 * 1000
        assert found["client"] > 0
        assert found["server"] > 0


@flower
def test_who_is_lost_at_each_stage_is_in_no_sum_or_ends_the_round():
    rows = lost_rows(str(FLWR_PYTHON), (5,), 1000)
    found = {(row["way"], row["no longer answer"]): row["in the sum"] for row in rows}
    assert {found[OURS, stage] for stage in STAGES[OURS][:4]} == {4}
    assert {found[OURS, stage] for stage in STAGES[OURS][4:]} == {5}
    assert found[FEDAVG, "train"] == 4
    assert found[SECAGG, "collect masked vectors"] == 4
    assert found[SECAGG, "setup"] == "the round is lost"


@flower
@pytest.mark.long
@pytest.mark.parametrize("copies", [False, True])
def test_all_ways_run_on_a_deployment(copies):
    for row in process_rows(str(FLWR_PYTHON), 3, (10_000,), copies=copies):
        assert row["in the sum"] == row["clients"]
        assert row["seconds a round"] > 0
        assert row["client's processes, CPU s"] > 0
