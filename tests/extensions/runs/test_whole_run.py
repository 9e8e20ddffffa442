"""Whole private trainings on the digits: as accurate under secure computation as in plaintext.

Measured in plaintext with 40 seeds at epsilon = 2, delta = 1e-5, held-out 359 records: mean 0.913,
standard deviation 0.012; without privacy 0.956 and 0.008. The floor is seven standard deviations
below the mean, so that chance alone breaks it with probability below 1e-11.
"""

import math
import stat
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import load, split_among
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig
from tests.conftest import SHARED
from tests.helpers.arrays import arrays_of
from tests.helpers.commands import KEYS, PLAIN, once, pea, report_of
from tests.helpers.digits import HELD_OUT, F, correct

pytestmark = [
    pytest.mark.xdist_group(SHARED["pools"]),
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

EPSILON, DELTA = 2.0, 1e-5
PRIVATE = ("--epsilon", EPSILON, "--delta", DELTA)
DEVIATION, FLOOR = 0.012, 0.83


def run(folder: Path, *options: object) -> dict[str, Any]:
    path = folder / "report.json"
    settings = once("--steps", 120, *PLAIN, *options)
    done = pea("train", *PRIVATE, *settings, "--verbose", "--json", path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("must not collude") == ("clear" not in options)
    report = report_of(path)
    for key in KEYS:
        assert key.replace("_", " ") in done.stdout
    return report


def accuracies(seeds: range, **options: Any) -> list[float]:
    """Returns accuracies of plaintext runs with these seeds, in this process."""
    parts = split_among(load("digits", None, 0), 3)
    config = TrainConfig(backend="clear", **options).resolved()
    return [
        train(replace(config, insecure_seed=seed), parts, lambda event: None)["accuracy"]
        for seed in seeds
    ]


@pytest.fixture(scope="module")
def private() -> list[float]:
    return accuracies(range(40), epsilon=EPSILON, delta=DELTA)


@pytest.mark.parametrize("seeds", [12, pytest.param(40, marks=pytest.mark.long)])
def test_the_measured_spread_still_holds(seeds):
    """Each bound is five standard errors away from what was measured."""
    found = accuracies(range(seeds), epsilon=EPSILON, delta=DELTA)
    assert abs(statistics.mean(found) - 0.913) < 5 * DEVIATION / math.sqrt(seeds)
    assert statistics.stdev(found) < DEVIATION * (1 + 5 / math.sqrt(2 * (seeds - 1)))
    assert min(found) > FLOOR


def test_without_privacy_the_model_is_the_reference():
    """Measured: mean 0.956, standard error 0.003, so the bound is five of them below."""
    assert statistics.mean(accuracies(range(10), private=False)) > 0.94


def check(report: dict[str, Any], steps: int = 120, floor: float = FLOOR) -> None:
    assert report["epsilon"] <= EPSILON
    assert report["epsilon"] > 0.999 * EPSILON
    assert report["delta"] == DELTA
    assert (report["steps"], report["parties"]) == (steps, 3)
    assert (report["records"], report["held_out_records"]) == ([480, 479, 479], [120, 120, 119])
    assert report["accuracy"] > floor


DESCENT = ("--momentum", 0.5, "--average", 0.25, "--lr-schedule", "linear", "--bias-scale", 0.5)


@pytest.mark.parametrize(
    ("steps", "options"), [(12, DESCENT), pytest.param(120, (), marks=pytest.mark.long)]
)
def test_with_the_same_noise_secure_and_plaintext_runs_agree(tmp_path, steps, options):
    """A mean takes one round more, once."""
    fixed = ("--insecure-fixed-randomness", 7, "--steps", steps, *options)
    secure = run(tmp_path, *fixed, "--save", tmp_path / "model")
    clear = run(tmp_path, *fixed, "--backend", "clear")
    for report in (secure, clear):
        check(report, steps=steps, floor=FLOOR if steps == 120 else 0.5)
    assert secure["rounds"] == steps * 18 + (2 if options else 1)
    assert abs(secure["accuracy"] - clear["accuracy"]) <= 0.01
    assert secure["epsilon"] == clear["epsilon"]
    assert secure["noise_multiplier"] == clear["noise_multiplier"]
    assert (secure["backend"], secure["data"]) == ("crypten", "digits")
    assert secure["provider"] == "dealer"
    assert secure["bytes_per_party"] > 30_000 * steps
    padding = secure["padding_bytes_per_party"] / secure["bytes_per_party"]
    assert 0.45 < padding < 0.55, "of an owner's 99 rows 48 are expected to be records"
    assert clear["padding_bytes_per_party"] == clear["bytes_per_party"] == 0
    assert secure["bytes_of_largest_party"] <= 1.001 * secure["bytes_per_party"]
    least, *_, most = sorted(secure["dealt_bytes"])
    assert most <= 1.15 * least, "equal portions, but for those of a step that is dealt ahead"
    assert least > 0.15e6 * steps
    assert secure["opened"] == ["the number of correct predictions on held-out records"]
    assert_shares_of_the_model(tmp_path / "model", secure["accuracy"])


def assert_shares_of_the_model(folder: Path, accuracy: float) -> None:
    """Each party's share is its owner's alone, hides the model, and adds up to it."""
    paths = sorted(folder.iterdir())
    assert [path.name for path in paths] == ["party-0.npz", "party-1.npz", "party-2.npz"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    shares = [arrays_of(path) for path in paths]
    assert {int(each["frac_bits"]) for each in shares} == {F}
    weight, bias = (sum(each[name] for each in shares) for name in ("weight_0", "bias_0"))
    assert 0 < np.abs(weight).max() < 2**40
    assert all(np.abs(each["weight_0"]).max() > 2**40 for each in shares)
    count, close = correct(weight, bias)
    assert abs(accuracy * HELD_OUT - count) <= close + 1e-9


@pytest.mark.long
def test_with_independent_noise_the_means_agree(tmp_path, private):
    """The difference of the means has a standard deviation of 0.0057; 3 points are five of them."""
    reports = [run(tmp_path) for _ in range(5)]
    for report in reports:
        check(report)
        assert report["insecure_seed"] is None
    secure = [report["accuracy"] for report in reports]
    assert len(set(secure)) > 1
    assert abs(statistics.mean(secure) - statistics.mean(private)) < 0.03


@pytest.mark.long
def test_with_softmax_secure_and_plaintext_runs_agree(tmp_path):
    options = ("--insecure-fixed-randomness", 7, "--loss", "softmax", "--max-grad-norm", 0.5)
    secure = run(tmp_path, *options)
    clear = run(tmp_path, *options, "--backend", "clear")
    for report in (secure, clear):
        check(report)
        assert report["loss"] == "softmax"
    assert secure["rounds"] == 120 * 26 + 1
    assert abs(secure["accuracy"] - clear["accuracy"]) <= 0.01


@pytest.mark.long
def test_a_hidden_layer_trains_alike_under_secure_computation(tmp_path):
    """Measured in plaintext with this seed: 0.744; rounding moves it by less than a point."""
    options = ("--insecure-fixed-randomness", 7, "--model", "mlp:16", "--lr", 1)
    secure = run(tmp_path, *options)
    clear = run(tmp_path, *options, "--backend", "clear")
    assert secure["rounds"] == 120 * 27 + 1
    assert abs(secure["accuracy"] - clear["accuracy"]) <= 0.01
    assert secure["accuracy"] > 0.72
