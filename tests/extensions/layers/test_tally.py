"""Sums over held-out records, the measures that follow from them, and the losses of numbers."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extensions.layers.losses import LOSSES, SQUARED, middle, predictions, residual, residual_norm
from extensions.layers.measures import KEYS, caveats, quality
from extensions.layers.tally import (
    BINS,
    EDGES,
    GROUPS,
    MOST_RECORDS,
    SHOWN,
    area_unit,
    at_prevalence,
    cells,
    check_number,
    edges_of,
    kind_of,
    opened_bits,
    opened_cells,
    sensitivity,
    summary,
    tally,
    uncentred,
)
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import MIN_FRAC_BITS, decode, encode
from extensions.runs.report import as_json
from tests.helpers.refused import refused
from tests.helpers.strategies import PROPERTY

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
    """Returns the sums of all rows, as `tally` makes them."""
    ring = ClearRing(F, rounding=rounding, seed=1)
    found = tally(ring, loss, encode(logits, F), encode(targets, F))
    assert found.shape == (cells(logits.shape[1]),)
    return found


def opened(counts: np.ndarray, classes: int, *, hidden: bool = True, rows: int = ROWS):
    """Returns the sums that are opened of them."""
    ring = ClearRing(F, rounding="extreme", seed=2)
    found = summary(ring, counts, classes, rows, hidden=hidden)
    assert found.shape == (opened_cells(classes, hidden=hidden),)
    return decode(found, opened_bits(classes, F))


def by_group(bins: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Returns how many records of each class there are in each bin and group."""
    found = np.zeros((BINS, GROUPS, 2), dtype=np.int64)
    np.add.at(found, (bins, np.arange(len(bins)) % GROUPS, truth), 1)
    return found


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_scores_of_two_classes_are_counted_by_bin_and_group(loss, rounding):
    odds, truth = scored()
    sums = decode(counted(loss, logits_of(odds, loss), np.eye(2)[truth], rounding), F)
    want = by_group(np.digitize(odds, EDGES), truth)
    np.testing.assert_array_equal(sums.reshape(want.shape), want)
    assert edges_of(loss, F)[len(EDGES) // 2] == 0


def area(truth: np.ndarray, score: np.ndarray) -> float:
    """Returns how often a record of class 1 has the higher score, over all pairs."""
    apart = score[truth == 1][:, None] - score[truth == 0][None, :]
    return float(((apart > 0) + (apart == 0) / 2).mean())


def middles() -> np.ndarray:
    """Returns the probability of class 1 in each bin's middle."""
    step = EDGES[1] - EDGES[0]
    return 1 / (1 + np.exp(-np.append(EDGES - step / 2, EDGES[-1] + step / 2)))


@pytest.mark.parametrize("seed", range(3))
def test_seven_sums_are_opened_of_scores_in_shares(seed):
    odds, truth = scored(seed)
    sums = opened(counted("sigmoid", logits_of(odds, "sigmoid"), np.eye(2)[truth]), 2)
    sums = uncentred(sums, 2, ROWS)
    said, bins = odds >= 0, np.digitize(odds, EDGES)
    cells_found = [
        int(((said == k) == right)[truth == k].sum()) for right in (1, 0) for k in (0, 1)
    ]
    assert sums[:4].tolist() == cells_found
    assert sums[4] == pytest.approx(
        float(((middles()[bins] - truth) ** 2).sum()), abs=ROWS * 2**-32
    )
    apart = np.sign(bins[truth == 1][:, None] - bins[truth == 0][None, :]).sum()
    assert sums[5] * 2**32 == int(apart) * area_unit(ROWS)
    assert sums[6] == right_of_the_highest(by_group(bins, truth)) / 2


def right_of_the_highest(counts: np.ndarray) -> float:
    """Returns how many are right if the highest are said to be of class 1, as many as there are.

    Of lists, one by one: the mean of two, in each of which one class comes first in a group.
    """
    found = []
    for first in (0, 1):
        ordered = [
            k
            for group in counts[::-1].reshape(-1, 2)
            for k in (first, 1 - first)
            for _ in range(group[k])
        ]
        said = [place < sum(ordered) for place in range(len(ordered))]
        found.append(sum(a == b for a, b in zip(said, ordered, strict=True)))
    return sum(found) / 2


def test_sums_of_a_public_model_are_by_coarser_bins():
    odds, truth = scored(4)
    counts = counted("sigmoid", logits_of(odds, "sigmoid"), np.eye(2)[truth])
    hidden, public = opened(counts, 2), opened(counts, 2, hidden=False)
    assert public[:5].tolist() == hidden[:5].tolist()
    coarse = np.digitize(odds, EDGES[17:110:2])
    want = [np.bincount(coarse[truth == k], minlength=SHOWN) for k in range(2)]
    np.testing.assert_array_equal(public[5:].reshape(2, SHOWN), want)


def test_measures_are_what_their_names_say():
    odds, truth = scored(1)
    counts = counted("sigmoid", logits_of(odds, "sigmoid"), np.eye(2)[truth])
    found = quality(opened(counts, 2), 2, NAMES, ROWS)
    assert set(found) == {name for name in KEYS if not name.startswith(("rmse", "r2"))}
    exact = ("accuracy", "auc", "brier", "brier_skill", "recall", "precision")
    assert all(found[f"{name}_interval"] is None for name in exact), "nothing is uncertain of these"
    said = (odds >= 0).astype(int)
    assert found["accuracy"] == np.mean(said == truth)
    assert found["majority"] == np.bincount(truth).max() / ROWS
    for name, among in (("recall", truth), ("precision", said)):
        want = {own: (said == truth)[among == k].mean() for k, own in enumerate(("no", "yes"))}
        assert found[name] == pytest.approx(want)
    assert found["auc"] == pytest.approx(area(truth, np.digitize(odds, EDGES)))
    assert found["auc"] == pytest.approx(area(truth, odds), abs=0.003)
    low, high = found["auc_interval_population"]
    assert low < found["auc"] < high < low + 0.15
    assert found["prevalence"] == pytest.approx({"no": 1 - truth.mean(), "yes": truth.mean()})
    highest = np.argsort(-odds)[: truth.sum()]
    want = truth[highest].mean()
    assert found["recall_at_prevalence"]["yes"] == pytest.approx(want, abs=0.01)
    missed = (1 - want) * truth.sum()
    assert found["recall_at_prevalence"]["no"] == pytest.approx(
        1 - missed / (1 - truth).sum(), abs=0.01
    )
    chance = 1 / (1 + np.exp(-odds))
    assert found["brier"] == pytest.approx(np.mean((chance - truth) ** 2), abs=0.001)
    skill = 1 - found["brier"] / truth.var()
    assert found["brier_skill"] == pytest.approx(skill)
    flat = counted("sigmoid", logits_of(4 * odds, "sigmoid"), np.eye(2)[truth])
    assert quality(opened(flat, 2), 2, NAMES, ROWS)["brier_skill"] < skill - 0.05
    public = quality(opened(counts, 2, hidden=False), 2, NAMES, ROWS)
    assert public["auc"] == pytest.approx(found["auc"], abs=0.005)
    assert public["recall_at_prevalence"] == pytest.approx(found["recall_at_prevalence"], abs=0.03)
    assert all(public[name] == found[name] for name in ("accuracy", "brier", "recall"))


def test_a_model_that_knows_nothing_has_the_majority_and_half_the_area():
    truth = np.arange(ROWS) % 10 == 0
    sums = counted("sigmoid", np.full((ROWS, 2), [1.0, -1.0]), np.eye(2)[truth.astype(int)])
    found = quality(opened(sums, 2), 2, {}, ROWS)
    assert (found["accuracy"], found["majority"], found["auc"]) == (0.9, 0.9, 0.5)
    assert found["recall"] == {"0": 1.0, "1": 0.0}
    assert found["precision"] == {"0": 0.9, "1": None}
    assert found["recall_at_prevalence"] == pytest.approx(found["prevalence"], abs=0.03)
    assert len(caveats(found)) == 2


def test_a_model_that_ranks_but_never_says_the_rare_class_is_told_how_many_to_choose():
    odds, truth = scored(1)
    counts = counted("sigmoid", logits_of(odds - 3, "sigmoid"), np.eye(2)[truth])
    found = quality(opened(counts, 2), 2, NAMES, ROWS)
    (doubt,) = caveats(found)
    parts = found["prevalence"]["yes"], found["recall_at_prevalence"]["yes"]
    assert all(text in doubt for text in (f"{parts[0]:.1%}", f"{parts[1]:.3f}"))
    (doubt,) = caveats(found | {"recall_at_prevalence": {"no": None, "yes": None}})
    assert f"{parts[1]:.3f}" not in doubt


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_of_several_classes_what_beats_no_majority_is_told(noise):
    draw = np.random.default_rng(6)
    truth = draw.choice(3, ROWS, p=[0.7, 0.2, 0.1])
    useless = draw.normal(loc=(3.0, 0.0, 0.0), size=(ROWS, 3))
    for logits, count in ((useless, 1), (useless + 4 * np.eye(3)[truth], 0)):
        sums = opened(counted("softmax", logits, np.eye(3)[truth]), 3)
        sums = sums + noise * draw.normal(size=len(sums))
        assert len(caveats(quality(sums, 3, {}, ROWS, noise))) == count


@pytest.mark.parametrize("hidden", [True, False])
def test_noise_leaves_measures_in_their_range(hidden):
    draw = np.random.default_rng(2)
    for _ in range(50):
        sums = draw.normal(0, 10, opened_cells(2, hidden=hidden))
        found = quality(sums, 2, {}, 10, 7.0)
        assert all(0 <= found[name] <= 1 for name in ("accuracy", "majority", "brier"))
        assert found["auc"] is None or 0 <= found["auc"] <= 1
        by_class = (found[f"{name}_interval"] for name in ("recall_at_prevalence", "prevalence"))
        intervals = [interval for both in by_class for interval in both.values()]
        for name in ("accuracy_interval", "auc_interval", "auc_interval_population"):
            intervals.append(found[name])
        assert all(0 <= low <= high <= 1 for low, high in intervals)
        as_json(found)


def test_records_of_several_classes_are_counted_right_and_wrong():
    draw = np.random.default_rng(3)
    logits, truth = draw.normal(size=(ROWS, 4)), draw.integers(0, 4, ROWS)
    sums = opened(counted("softmax", logits, np.eye(4)[truth]), 4)
    found = quality(sums, 4, {"class 2": "c"}, ROWS)
    right = logits.argmax(axis=1) == truth
    assert found["accuracy"] == right.mean()
    assert found["recall"]["c"] == pytest.approx(right[truth == 2].mean())
    assert found["majority"] == np.bincount(truth).max() / ROWS


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_errors_of_a_number_are_summed(rounding):
    draw = np.random.default_rng(4)
    said, truth = draw.uniform(-0.2, 1.2, (ROWS, 1)), draw.uniform(0, 1, (ROWS, 1))
    sums = opened(counted("squared", said - 0.5, truth, rounding), 1)
    facts = {"schema target": {"classes": [], "range": [100.0, 300.0]}}
    found = quality(sums, 1, facts, ROWS)
    near = np.clip(said, 0, 1) - truth
    assert found["rmse"] == pytest.approx(200 * np.sqrt(np.mean(near**2)), rel=1e-5)
    assert found["rmse_of_mean"] == pytest.approx(200 * truth.std(), rel=1e-5)
    assert found["r2"] == pytest.approx(1 - np.mean(near**2) / truth.var(), abs=1e-4)
    assert set(found) <= set(KEYS)
    assert len(caveats(found)) == 1


def test_one_record_of_many_classes_moves_one_count():
    logits = np.array([-9.0, 9.0, 0.0, 0.0, 0.0])
    for target in np.eye(5):
        sums = opened(counted("squared", logits[None], target[None]), 5, rows=1)
        assert sorted(sums)[-2:] == [0.0, sensitivity(5)]
    assert [kind_of(classes) for classes in (1, 5)] == ["moments", "classes"]


@pytest.mark.parametrize("frac_bits", [MIN_FRAC_BITS, F])
@PROPERTY
@given(data=st.data())
def test_one_number_moves_all_sums_by_no_more_than_is_accounted(frac_bits, data):
    """With what is rounded; attained nearly by an error of 1 at an end of the range."""
    pairs = st.tuples(
        st.sampled_from((-9.0, -0.5, 0.0, 0.1, 0.5, 9.0)), st.sampled_from((0.0, 0.3, 0.5, 1.0))
    )
    rows = encode(data.draw(st.lists(pairs, min_size=2, max_size=20)), frac_bits)
    ring = ClearRing(frac_bits, rounding="extreme", seed=data.draw(st.integers(0, 9)))
    least, more = (tally(ring, "squared", own[:, :1], own[:, 1:]) for own in (rows[1:], rows))
    moved = np.linalg.norm(decode(more - least, frac_bits))
    assert moved <= sensitivity(1)
    if frac_bits == F and tuple(decode(rows[0], F)) in {(-9.0, 1.0), (9.0, 0.0)}:
        assert moved >= 0.98 * sensitivity(1)


BIN = st.sampled_from((0, 1, 63, 64, 90, BINS - 1))
PLACES = st.tuples(BIN, st.sampled_from((0, 1, GROUPS - 1)), st.integers(0, 1))


@pytest.mark.parametrize("hidden", [True, False])
@PROPERTY
@given(others=st.lists(PLACES, max_size=30), places=st.tuples(PLACES, PLACES))
@example(others=[(0, 0, 0)] * 30, places=((BINS - 1, 0, 1), (0, 0, 0)))  # nearly attains it
def test_one_record_of_two_classes_moves_all_sums_by_no_more_than_is_accounted(
    hidden, others, places
):
    """Whatever the others are; a null record moves none, and one for another moves twice as far."""
    rows = len(others) + 1
    counts = counts_at(others)
    without = opened(counts.reshape(-1), 2, rows=rows, hidden=hidden)
    moved = []
    for place in places:
        more = counts.copy()
        more[place] += 1 << F
        moved.append(opened(more.reshape(-1), 2, rows=rows, hidden=hidden) - without)
    bound = sensitivity(2) * (1 + 1e-6)
    assert max(float(np.linalg.norm(each)) for each in moved) <= bound
    assert float(np.linalg.norm(moved[0] - moved[1])) <= 2 * bound


def counts_at(places: list[tuple[int, int, int]]) -> np.ndarray:
    """Returns counts of records with these bins, groups and classes."""
    counts = np.zeros((BINS, GROUPS, 2), dtype=np.int64)
    for place in places:
        counts[place] += 1 << F
    return counts


@PROPERTY
@given(others=st.lists(PLACES, max_size=40), place=PLACES)
@example(others=[(64, 0, 1), (64, 1, 0)], place=(0, 0, 0))  # two groups of one bin
def test_one_record_moves_how_many_of_the_highest_are_right_by_one_at_most(others, place):
    """One class first, as the other, moves it by one exactly; the mean of both by no more."""
    counts = counts_at(others)
    ring = ClearRing(F, rounding="extreme")
    without = int(at_prevalence(ring, counts)) >> F
    assert without == right_of_the_highest(counts >> F)
    counts[place] += 1 << F
    assert abs((int(at_prevalence(ring, counts)) >> F) - without) <= 1


def test_that_bound_is_near_what_a_record_moves():
    counts = np.zeros((BINS, GROUPS, 2), dtype=np.int64)
    counts[0, 0, 0] = 999 << F
    without = opened(counts.reshape(-1), 2, rows=1000, hidden=True)
    counts[BINS - 1, 0, 1] += 1 << F
    moved = opened(counts.reshape(-1), 2, rows=1000, hidden=True) - without
    assert float(np.linalg.norm(moved)) == pytest.approx(sensitivity(2), rel=0.001)


def test_so_many_records_that_sums_leave_the_ring_are_refused():
    check_number(MOST_RECORDS // 3, 3)
    with refused("held_out", "range", MOST_RECORDS // 3 + 1):
        check_number(MOST_RECORDS // 3 + 1, 3)
    counts = np.zeros((BINS, GROUPS, 2), dtype=np.int64)
    counts[0, 0, 0] = counts[-1, -1, 1] = (MOST_RECORDS // 2) << F
    sums = opened(counts.reshape(-1), 2, rows=MOST_RECORDS)
    found = quality(sums, 2, {}, MOST_RECORDS)
    assert (found["auc"], found["recall_at_prevalence"]) == (1.0, {"0": 1.0, "1": 1.0})
    assert np.abs(sums).max() < 2.0**30


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
