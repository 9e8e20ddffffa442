"""The accuracy experiments run end to end, and their competitors keep their promises."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import tables
from benchmarks.__main__ import Benchmarks
from benchmarks.accuracy.federated import LOCAL_STEPS, federated_average
from benchmarks.accuracy.initialization import with_local_start
from benchmarks.accuracy.local_models import TOLERANCE, averaged, minimiser, sensitivity
from benchmarks.accuracy.records import Material, dealt, folder_of, without_test
from benchmarks.accuracy.runs import train
from benchmarks.accuracy.settings import PLAIN
from extensions.data.datasets import load
from extensions.privacy.accounting import epsilon
from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from tests.helpers.refused import refused

DIGITS = load("digits", None, 0)
CONFIG = PLAIN["digits"].config(
    records=len(DIGITS.train_x), classes=10, epsilon=2.0, max_feature_norm=1.0, steps=20
)


@pytest.fixture
def own_results(tmp_path, monkeypatch):
    """Results and caches are in the test's folder."""
    pytest.importorskip("skimage")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.long
def test_an_experiment_writes_its_table(tmp_path, own_results):
    command = ["accuracy", "--data", "digits", "--experiment", "accountant", "--seeds", "2"]
    Benchmarks.call("benchmarks", *command, "--record")
    written = json.loads((tmp_path / "accuracy-accountant-digits.json").read_text())
    assert written["settings"]["seeds"] == [0, 1]
    assert written["settings"]["load"] >= 0.0
    *ours, paper = written["rows"]
    for row in ours:
        assert row["epsilon by the accountant"] <= row["claimed epsilon"]
        assert row["epsilon by the paper"] > 4 * row["claimed epsilon"]
    assert paper["epsilon by the paper"] == pytest.approx(2.0, rel=1e-3)
    assert paper["accuracy, %"] < ours[-1]["accuracy, %"] - 10


@pytest.mark.long
def test_one_way_is_recorded_and_what_was_published_of_others_stays(tmp_path, own_results):
    command = ["accuracy", "--data", "digits", "--experiment", "secure", "--seeds", "1", "--way"]
    file, written = tmp_path / "accuracy-secure-crypten-digits.json", []
    for way in ("sufficient statistics", "whitened, open iterates"):
        Benchmarks.call("benchmarks", *command, way, "--record")
        written.append(json.loads(file.read_text()))
    (first, second) = written
    assert [row["way"] for row in second["rows"]] == 3 * [way] + 3 * ["sufficient statistics"]
    assert second["rows"][3:] == first["rows"]
    for name in ("tuned", "seconds", "loads_before"):
        assert first["settings"][name].items() < second["settings"][name].items()
    lacking = [row for row in second["rows"] if row["way"] == way and row["epsilon"] > 1.5]
    lacking += first["rows"]
    file.write_text(json.dumps(second | {"rows": lacking}))
    command[4] = "lacking"
    Benchmarks.call("benchmarks", *command, way, "--record")
    third = json.loads(file.read_text())
    assert [row["epsilon"] for row in third["rows"]] == pytest.approx(2 * [2, 1, 0.5], rel=1e-3)
    assert [third["rows"][0], *third["rows"][3:]] == lacking
    command[4] = "secure"
    Benchmarks.call("benchmarks", *command, "sufficient statistics, 0.5", "--record")
    fourth = json.loads(file.read_text())
    assert fourth["rows"][:-1] == third["rows"][:-1]
    assert fourth["rows"][-1]["seconds"] != third["rows"][-1]["seconds"]
    with refused("way", "choice", "none"):
        Benchmarks.call("benchmarks", *command, "none")


def test_seeds_decide_a_run_and_accuracy_is_watched():
    config, parts = CONFIG.resolved(), dealt(DIGITS)
    one, again, other = (train(config, parts, seed=s, watch=(0, 5, 20)) for s in (1, 1, 2))
    assert one == again != other
    assert one["steps"][0] < 20 < one["steps"][5]
    assert one["steps"][20] == one["accuracy"]
    assert one["epsilon"] == pytest.approx(2.0, rel=1e-3)


def test_a_sixth_of_the_training_records_is_set_aside():
    aside = without_test(DIGITS)
    assert len(aside.test_x) == len(DIGITS.train_x) // 6
    np.testing.assert_array_equal(np.concatenate([aside.test_x, aside.train_x]), DIGITS.train_x)


def test_a_local_start_and_joint_training_together_cost_epsilon():
    spent = train(with_local_start(CONFIG, "local-average"), dealt(DIGITS), seed=0)["epsilon"]
    assert 1.9 < spent <= 2.0


def test_federated_averaging_costs_a_record_the_steps_of_one_party():
    config = CONFIG.resolved(CONFIG.steps // LOCAL_STEPS * OVERFLOW_PROBABILITY)
    found = federated_average(config, dealt(DIGITS), seed=0)
    steps = epsilon(
        noise_multiplier=config.noise_multiplier,
        sample_rate=config.sample_rate,
        steps=config.steps,
        delta=config.delta,
    )
    assert steps <= found["epsilon"] <= 2.0
    assert found["accuracy"] > 30


def test_files_that_are_missing_are_asked_for(monkeypatch, tmp_path, no_public_data):
    with refused("data_dir", "file", value=None):
        folder_of("mnist", None, False)
    assert folder_of("digits", None, False) is None
    (tmp_path / "public" / "mnist").mkdir(parents=True)
    monkeypatch.setenv("PEA_DATA", str(tmp_path / "public"))
    assert folder_of("mnist", None, False) == tmp_path / "public" / "mnist"
    assert (
        Material(data="imdb", data_dir=None, download=False, epsilon=1.0, seeds=range(1)).classes
        == 2
    )


def test_one_record_moves_an_average_of_local_models_by_its_sensitivity_at_most():
    """The record whose loss is steepest, with each label, counts or is a null record."""
    draws = np.random.default_rng(0)
    x = draws.normal(size=(40, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.eye(3)[draws.integers(0, 3, 40)]
    strength, moved = 1.0, []
    models = {}
    for label in range(3):
        y[0] = np.eye(3)[label]
        for scale in (0.0, 1.0):
            models[scale] = minimiser(np.concatenate([scale * x[:1], x[1:]]), y, strength)
        moved.append(float(np.linalg.norm(models[1.0] - models[0.0])))
    bound = sensitivity([40], strength)
    assert bound / 4 < max(moved) <= bound
    assert sensitivity([40, 50], strength) == pytest.approx(bound / 2)


def test_few_rows_of_many_columns_have_their_minimiser_in_their_span():
    draws = np.random.default_rng(0)
    x, y = draws.normal(size=(12, 90)) / 10, np.eye(3)[draws.integers(0, 3, 12)]
    weights = minimiser(x, y, 1e-3)
    scores = np.exp(x @ weights.T)
    scores /= scores.sum(axis=1, keepdims=True)
    slope = (scores - y).T @ x / len(x) + 1e-3 * weights
    assert np.linalg.norm(slope) <= 2 * TOLERANCE < np.linalg.norm(weights)


@pytest.mark.filterwarnings("ignore::extensions.errors.PrivacyWarning")
def test_a_noisy_average_of_local_models_learns_less_than_joint_training():
    parts = dealt(DIGITS)
    found = averaged(CONFIG, parts, seed=0, strength=1e-2, variance=1.0)
    clear = averaged(replace(CONFIG, epsilon=1e3), parts, seed=0, strength=1e-2, variance=1.0)
    assert found["epsilon"] == CONFIG.epsilon
    assert 20 < found["accuracy"] < clear["accuracy"]
    assert clear["accuracy"] > 80
