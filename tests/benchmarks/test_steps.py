"""The benchmarks of steps and training run from end to end, and sum up what they measured."""

import io
import json
import math
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import tables
from benchmarks.__main__ import Benchmarks
from benchmarks.instruments.costs import measure_host
from benchmarks.instruments.spu import SpuParties
from benchmarks.network import calibration
from benchmarks.steps.dpsgd_scaling import growth_rows, points_of, series_of
from benchmarks.steps.dpsgd_step import floor_ms, rows_of
from benchmarks.steps.hosts import SPU_PARTY, measure
from benchmarks.steps.step import (
    FRAC_BITS,
    GHOST,
    KINDS,
    MATERIALISED,
    PLAIN,
    inputs,
    step_of,
)
from benchmarks.steps.training import kinds_of
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode
from extensions.runs.config import TrainConfig
from tests.helpers.refused import refused
from tests.tfe_ext.test_compat import needs_tensorflow

BASE = {"batch": 64, "features": 32, "classes": 4}
SPU_PYTHON = os.environ.get("SPU_PYTHON")

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads what the kernel counted")


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    """Returns the results of one command, by name."""
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    with redirect_stdout(io.StringIO()) as shown:
        Benchmarks.call("benchmarks", *arguments, "--record")
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    for content in found.values():
        assert tables.markdown(content["rows"]) in shown.getvalue()
        assert {"processor", "versions", "cores"} <= set(content["machine"])
        assert {"network", "seed"} <= set(content["settings"])
    return found


def cost(point: dict[str, int], extra: float = 0.0) -> dict[str, Any]:
    """Made-up costs of a known law."""
    size = 500 + 24 * point["batch"] * point["features"] + extra
    seconds = [9.0, 1e-3 * point["batch"] ** 0.5, 0.0]
    return {"rounds": 27, "bytes": size, "largest": size, "seconds": seconds}


def test_unknown_hosts_are_refused():
    with refused("host", "choice", value="aby3"):
        measure("aby3", 1, BASE)
    with refused("host", "choice", value="aby3"):
        measure_host("aby3", "benchmarks.steps.losses", {})


def test_the_sweep_finds_the_growth_that_made_its_figures():
    points = points_of(BASE, (0.5, 1.0, 2.0))
    found = [{GHOST: cost(point)} for point in points]
    rows = {
        row["varied"]: row
        for row in growth_rows("host", series_of(BASE, points, found), KINDS[1:2])
    }
    assert set(rows) == {"batch 32..128", "features 16..64", "classes 2..8"}
    assert [row["rounds"] for row in rows.values()] == ["27"] * 3
    assert math.isclose(rows["batch 32..128"]["exponent of time"], 0.5)
    assert 0.98 < rows["batch 32..128"]["exponent of bytes"] < 1.0
    assert rows["classes 2..8"]["exponent of bytes"] == 0.0


def test_rounds_that_change_are_shown():
    points = points_of(BASE, (0.5, 1.0))
    found = [{GHOST: {**cost(p), "rounds": 20 + p["batch"] // 32}} for p in points]
    rows = growth_rows("host", series_of(BASE, points, found), [GHOST])
    assert [row["rounds"] for row in rows] == ["21..22", "22", "22"]


def test_the_physical_floor_by_hand():
    """27 rounds of 20 ms; 4 MB over four ways of 100 Mbit/s, 80 ms each; 30 MB dealt over three."""
    wan = {"one-way ms": 20.0, "Mbit/s": 100.0}
    own = {"rounds": 27, "bytes": 3e6, "largest": 4e6, "dealt": 0.0, "seconds": [1.0]}
    assert math.isclose(floor_ms(own, wan), 27 * 20 + 80)
    assert math.isclose(floor_ms({**own, "dealt": 21e6}, wan), 27 * 20 + 80)
    assert math.isclose(floor_ms({**own, "dealt": 30e6}, wan), 800)
    assert floor_ms(own, {"one-way ms": 0.0, "Mbit/s": None}) == 0.0
    (row,) = rows_of("SPU ABY3", {PLAIN: {**own, "rounds": None}}, wan)
    assert (row["rounds"], row["floor ms"], row["median ms"]) == ("-", "-", 1000.0)


def test_samples_keep_the_day_on_which_they_were_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.dates(tables.published("steps", batch=1)) == {}
    days = {"theirs": "2026-01-02"}
    samples = {"ours": [1.0], "theirs": [2.0]}
    again = tables.Table("steps", [{"step": 1}], samples=samples, batch=1, recorded=days)
    again.write(record=False)
    assert tables.published("steps", batch=1) == {}
    again.write(record=True)
    found = tables.published("steps", batch=1)
    assert tables.dates(found) == {"ours": found["recorded"], **days}


def test_all_three_steps_are_the_same_but_for_privacy():
    """The sizes clip nothing, and a step's noise is known: what is left is rounding."""
    sizes = {"batch": 64, "features": 8, "classes": 2}
    shares = inputs(**sizes)
    weights = {
        kind: decode(step_of(ClearRing(FRAC_BITS, parties=3, seed=1), kind, shares)[0], FRAC_BITS)
        for kind in KINDS
    }
    sd = math.sqrt(1.5) / sizes["batch"]
    for kind in (GHOST, MATERIALISED):
        moved = np.abs(weights[kind] - weights[PLAIN])
        assert 0 < moved.max() < 7 * sd


def test_training_is_compared_with_and_without_privacy_everywhere():
    private = TrainConfig(parties=3, epsilon=2.0, delta=1e-5)
    kinds = kinds_of(private)
    assert len(kinds) == 8
    assert {config.backend for config in kinds.values()} == {"crypten", "tfe", "clear"}
    for name, config in kinds.items():
        assert config.private == name.endswith(", private")
    assert len(kinds_of(TrainConfig(parties=2, epsilon=2.0, delta=1e-5))) == 6


def test_training_on_an_emulated_network_leaves_out_servers_of_one_process(monkeypatch):
    monkeypatch.setenv(calibration.VARIABLE, json.dumps({"profile": "wan"}))
    kinds = kinds_of(TrainConfig(parties=3, epsilon=2.0, delta=1e-5))
    assert {config.backend for config in kinds.values()} == {"crypten", "clear"}


@pytest.mark.long
@linux
def test_training_command(tmp_path, monkeypatch):
    arguments = ["dpsgd-train", "--parties", "2", "--seeds", "1", "--steps", "3"]
    found = run(tmp_path, monkeypatch, *arguments)["training-digits-2-parties"]
    rows = {row["run"]: row for row in found["rows"]}
    assert len(rows) == 6
    for name, row in rows.items():
        assert (row["rounds"] > 0) == name.startswith("CrypTen")
        assert (row["epsilon"] == "infinite") == name.endswith("not private")
        assert len(found["samples"][name][0]["step_seconds"]) == 2
    private, plain = rows["CrypTen, private"], rows["CrypTen, not private"]
    assert private["epsilon"] <= 2.0
    assert private["rounds"] > plain["rounds"]
    assert private["MB/party"] > plain["MB/party"]


@linux
@needs_tensorflow
@pytest.mark.long
def test_step_command(tmp_path, monkeypatch):
    arguments = ["dpsgd-step", "--batch", "16", "--features", "8", "--classes", "2", "--steps", "1"]
    if SPU_PYTHON:
        arguments += ["--spu-python", SPU_PYTHON]
    found = run(tmp_path, monkeypatch, *arguments)["dpsgd-step-3-parties"]
    ghost = [row for row in found["rows"] if row["step"] == GHOST]
    assert [row["rounds"] for row in ghost] == [18, 18, 18, "-"][: len(ghost)]
    assert len(found["rows"]) == len(KINDS) * (4 if SPU_PYTHON else 3)
    for row in found["rows"]:
        assert row["MB/party"] > 0
        assert len(found["samples"][row["host"]][row["step"]]["seconds"]) == 1


@linux
@needs_tensorflow
@pytest.mark.long
def test_scaling_command(tmp_path, monkeypatch):
    arguments = [
        "dpsgd-scaling",
        "--batch",
        "128",
        "--features",
        "16",
        "--classes",
        "4",
        "--steps",
        "1",
    ]
    rows = run(tmp_path, monkeypatch, *arguments)["dpsgd-scaling"]["rows"]
    assert len(rows) == len(KINDS) * (4 + 3)
    assert {row["rounds"] for row in rows} == {"10", "18"}


@linux
@needs_tensorflow
@pytest.mark.long
def test_noise_command(tmp_path, monkeypatch):
    arguments = ["noise", "--size", "100", "--repeats", "1"]
    found = run(tmp_path, monkeypatch, *arguments)
    rounds = {(r["host"], r["noise"]): r["rounds"] for r in found["noise-cost"]["rows"]}
    assert rounds["CrypTen", "Protocol 2"] == 0
    assert rounds["ABY3", "Protocol 2"] == 1
    assert rounds["CrypTen", "crypten.randn"] > 100


@pytest.mark.long
@pytest.mark.skipif(SPU_PYTHON is None, reason="SPU_PYTHON names no interpreter that has SPU")
def test_the_step_in_spu_is_the_same_step():
    sizes = {"batch": 16, "features": 8, "classes": 3}
    x, _, y, weight, _ = (np.ldexp(v.astype(float), -FRAC_BITS) for v in inputs(**sizes))
    delta = 1 / (1 + np.exp(-x @ weight.T)) - y
    norms = np.sqrt((delta**2).sum(1) * ((x * x).sum(1) + 1))
    clipped = delta / np.maximum(norms, 1.0)[:, None]
    with SpuParties(str(SPU_PYTHON), SPU_PARTY) as parties:
        for kind, sigma in ((PLAIN, 0.0), (GHOST, 0.0), (MATERIALISED, 0.0), (GHOST, 3.0)):
            task = {"kind": kind, "steps": 1, "sizes": sizes, "sigma": sigma}
            first, *_ = parties.run(task="measure", **task)
            used = delta if kind == PLAIN else clipped
            error = np.abs(np.array(first["opened"][0]) - (weight - used.T @ x / 16)).max()
            assert (error > 0.01) if sigma else (error < 2e-3)


@needs_tensorflow
@pytest.mark.long
def test_first_step_command(tmp_path, monkeypatch):
    arguments = ["first-step", "--model", "8-2", "--model", "8-4-2", "--records", "30"]
    rows = run(tmp_path, monkeypatch, *arguments, "--steps", "3")["first-step"]["rows"]
    linear, hidden = rows
    assert (linear["model"], hidden["model"]) == ("8-2", "8-4-2")
    assert 1000 < linear["nodes"] < hidden["nodes"]
    for row in rows:
        assert 1000 * row["first step, CPU s"] > row["step, CPU ms"] > 0
        assert 1000 * row["first evaluation, CPU s"] > row["evaluation, CPU ms"] > 0
