"""Sums over held-out records, the measures that follow from them, and the losses of numbers."""

import math

import numpy as np
import pytest

from extensions.network.losses import LOSSES, SQUARED, middle, predictions, residual, residual_norm
from extensions.network.measures import KEYS, quality
from extensions.network.tally import BINS, EDGES, cells, edges_of, kind_of, sensitivity, tally
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode

F = 20
ROWS = 400
ROUNDINGS = ("floor", "ceiling", "extreme", "probabilistic")
NAMES = {"schema target": {"classes": ["no", "yes"], "range": None}}


def scored(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns log-odds of class 1, and classes that follow them."""
    draw = np.random.default_rng(seed)
    odds = draw.normal(-0.7, 1.2, ROWS)
    return odds, (draw.uniform(size=ROWS) < 1 / (1 + np.exp(-odds))).astype(int)


def logits_of(odds: np.ndarray, loss: str) -> np.ndarray:
    """Returns logits by which a model with that loss says these log-odds."""
    tangent = np.tanh(odds / 2)
    scores = {"sigmoid": 2 * odds, "softmax": odds, "hard-sigmoid": 4 * tangent}
    apart = scores.get(loss, tangent)
    return np.stack([0.3 - apart / 2, 0.3 + apart / 2], axis=1)


def counted(loss: str, logits: np.ndarray, targets: np.ndarray, rounding: str = "extreme"):
    ring = ClearRing(F, rounding=rounding, seed=1)
    found = tally(ring, loss, encode(logits, F), encode(targets, F))
    assert found.shape == (cells(logits.shape[1]),)
    return decode(found, F)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_scores_of_two_classes_are_counted_by_bin(loss, rounding):
    odds, truth = scored()
    sums = counted(loss, logits_of(odds, loss), np.eye(2)[truth], rounding)
    bins = np.digitize(odds, EDGES)
    want = [np.bincount(bins[truth == k], minlength=BINS) for k in range(2)]
    np.testing.assert_array_equal(sums.reshape(2, BINS), want)
    assert edges_of(loss, F)[len(EDGES) // 2] == 0


def area(truth: np.ndarray, score: np.ndarray) -> float:
    """Returns how often a record of class 1 has the higher score, over all pairs."""
    apart = score[truth == 1][:, None] - score[truth == 0][None, :]
    return float(((apart > 0) + (apart == 0) / 2).mean())


def test_measures_are_what_their_names_say():
    odds, truth = scored(1)
    found = quality(
        counted("sigmoid", logits_of(odds, "sigmoid"), np.eye(2)[truth]), 2, NAMES, ROWS
    )
    assert set(found) == set(KEYS) - {"rmse", "rmse_of_mean"}
    said = (odds >= 0).astype(int)
    assert found["accuracy"] == np.mean(said == truth)
    assert found["majority"] == np.bincount(truth).max() / ROWS
    assert found["recall"] == pytest.approx(
        {name: (said == k)[truth == k].mean() for k, name in enumerate(("no", "yes"))}
    )
    binned = np.digitize(odds, EDGES)
    assert found["auc"] == pytest.approx(area(truth, binned))
    assert found["auc"] == pytest.approx(area(truth, odds), abs=0.005)
    flat = quality(
        counted("sigmoid", logits_of(4 * odds, "sigmoid"), np.eye(2)[truth]), 2, NAMES, ROWS
    )
    assert found["calibration_error"] < 0.1 < flat["calibration_error"]


def test_a_model_that_knows_nothing_has_the_majority_and_half_the_area():
    truth = np.arange(ROWS) % 10 == 0
    sums = counted("sigmoid", np.full((ROWS, 2), [1.0, -1.0]), np.eye(2)[truth.astype(int)])
    found = quality(sums, 2, {}, ROWS)
    assert (found["accuracy"], found["majority"], found["auc"]) == (0.9, 0.9, 0.5)
    assert found["recall"] == {"0": 1.0, "1": 0.0}


def test_noise_leaves_measures_in_their_range():
    draw = np.random.default_rng(2)
    for _ in range(50):
        found = quality(draw.normal(0, 10, 2 * BINS), 2, {}, 10)
        assert all(0 <= found[name] <= 1 for name in ("accuracy", "majority", "auc"))
    empty = quality(np.full(2 * BINS, -1.0), 2, {}, 10)
    assert (empty["auc"], empty["accuracy"]) == (None, None)


def test_records_of_several_classes_are_counted_right_and_wrong():
    draw = np.random.default_rng(3)
    logits, truth = draw.normal(size=(ROWS, 4)), draw.integers(0, 4, ROWS)
    found = quality(counted("softmax", logits, np.eye(4)[truth]), 4, {"class 2": "c"}, ROWS)
    right = logits.argmax(axis=1) == truth
    assert found["accuracy"] == right.mean()
    assert found["recall"]["c"] == right[truth == 2].mean()
    assert found["majority"] == np.bincount(truth).max() / ROWS


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_errors_of_a_number_are_summed(rounding):
    draw = np.random.default_rng(4)
    said, truth = draw.uniform(-0.2, 1.2, (ROWS, 1)), draw.uniform(0, 1, (ROWS, 1))
    sums = counted("squared", said - 0.5, truth, rounding)
    facts = {"schema target": {"classes": [], "range": [100.0, 300.0]}}
    found = quality(sums, 1, facts, ROWS)
    near = np.clip(said, 0, 1) - truth
    assert found["rmse"] == pytest.approx(200 * np.sqrt(np.mean(near**2)), rel=1e-5)
    assert found["rmse_of_mean"] == pytest.approx(200 * truth.std(), rel=1e-5)
    assert set(found) <= set(KEYS)


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_one_record_moves_all_sums_by_no_more_than_is_accounted(classes):
    """Attained by an error of 1 at an end of the range, and by every count."""
    ends = np.array([[-9.0] * classes, [9.0] * classes])
    worst = 0.0
    for logits in ends:
        for target in np.eye(classes) if classes > 1 else ([0.0], [1.0]):
            sums = counted("squared", logits[None], np.array([target]))
            worst = max(worst, float(np.linalg.norm(sums)))
    assert worst == pytest.approx(sensitivity(classes), rel=1e-5)
    assert kind_of(classes) == {1: "moments", 2: "bins", 5: "classes"}[classes]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("loss", [*SQUARED, "hard-sigmoid"])
def test_residuals_lie_in_their_bound(loss, outputs, rounding):
    """Predictions are cut to 0..1 in any case; the residuals of least squares are not."""
    ring, draw = ClearRing(F, rounding=rounding, seed=1), np.random.default_rng(5)
    logits = np.concatenate([draw.normal(0, 1, (50, outputs)), draw.normal(0, 100, (50, outputs))])
    said = decode(predictions(ring, loss, encode(logits, F)), F)
    uncut = logits / 4 + 0.5 if loss == "hard-sigmoid" else logits + middle(loss, outputs)
    np.testing.assert_allclose(said, np.clip(uncut, 0, 1), atol=2.0**-F)
    length = float(np.linalg.norm(logits, axis=1).max())
    bound = residual_norm(loss, outputs, length)
    assert bound < 2 * math.sqrt(outputs) + (length if loss == "least-squares" else 0)
    for targets in (np.zeros_like(logits), np.ones_like(logits), draw.uniform(0, 1, logits.shape)):
        apart = decode(residual(ring, loss, encode(logits, F), encode(targets, F)), F)
        assert np.linalg.norm(apart, axis=1).max() <= bound
        if loss == "least-squares":
            np.testing.assert_allclose(apart, uncut - targets, atol=2.0 ** (1 - F))


def test_a_model_of_zeros_predicts_the_middle():
    assert [middle("squared", n) for n in (1, 2, 4)] == [0.5, 0.5, 0.5]
    assert [middle("least-squares", n) for n in (1, 2, 4)] == [0.5, 0.5, 0.25]
    assert residual_norm("least-squares", 3) == math.inf
