"""Batches in CrypTen hold each party's own records at the stated rate, in a public number of rows.

What is wrong at one party is refused at every party, after the one round in which they compare
notes and before anything is shared. Rates are tested with exact binomial tails (`ALARM` each).
"""

import math
import re
from typing import Any

import numpy as np
import pytest

from extensions.privacy.sampling import OVERFLOW_PROBABILITY, capacity
from tests.conftest import Pools
from tests.helpers.strategies import ALARM, count_p_value

TASKS = "tests.helpers.party_tasks.batches"
F, CLASSES, RATE, STEPS = 20, 4, 0.3, 300
SIZES = (40, 0, 25)


def numbered(rank: int) -> dict[str, Any]:
    """Returns records that name their owner and number: (rank + 1, number + 1) / 64."""
    size = SIZES[rank]
    if size == 0:
        return {"x": None, "y": None}
    x = np.stack([np.full(size, rank + 1), np.arange(1, size + 1)], axis=1) / 64
    return {"x": x, "y": np.arange(size) % CLASSES}


@pytest.fixture(scope="module")
def run(pools: Pools) -> dict[str, Any]:
    return pools.run(
        3,
        f"{TASKS}:sample",
        per_party=[numbered(rank) for rank in range(3)],
        steps=STEPS,
        sample_rate=RATE,
        classes=CLASSES,
    )[0]


def rows_of(rank: int, steps: int = STEPS, rate: float = RATE) -> int:
    each = OVERFLOW_PROBABILITY / (steps * len(SIZES))
    return capacity(SIZES[rank], rate, each) if SIZES[rank] else 0


def drawn(run: dict[str, Any], rank: int) -> np.ndarray:
    """Returns whether each record of a party was in each batch, (steps, records)."""
    start = sum(rows_of(r) for r in range(rank))
    present = np.zeros((STEPS, SIZES[rank]), dtype=bool)
    for step, batch in enumerate(run["batches"]):
        rows = slice(start, start + rows_of(rank))
        real = batch["padding"][rows] == 0
        owners, numbers = np.rint(batch["x"][rows][real] * 64 / 2**F).astype(int).T
        assert (owners == rank + 1).all()
        assert len(set(numbers)) == len(numbers)
        present[step, numbers - 1] = True
    return present


def test_rows_are_public_and_constant(run):
    total = sum(rows_of(rank) for rank in range(3))
    assert rows_of(0) < SIZES[0]
    for batch in run["batches"]:
        assert batch["x"].shape == (total, 2)
        assert batch["y"].shape == (total, CLASSES)
        assert batch["norms"].shape == batch["padding"].shape == (total,)


def test_sharing_a_batch_sends_nothing(run):
    assert run["first"] == ["all_gather"]
    assert all(batch["traffic"] == [] for batch in run["batches"])


def test_rows_are_records_of_their_owner_or_padding(run):
    known = {}
    for rank in range(3):
        x, y = numbered(rank).values()
        for row, label in zip(x if SIZES[rank] else [], y if SIZES[rank] else [], strict=True):
            known[tuple(np.rint(row * 2**F).astype(int))] = label
    for batch in run["batches"]:
        for x, y, norm, padding in zip(
            batch["x"], batch["y"], batch["norms"], batch["padding"], strict=True
        ):
            assert norm == x @ x
            assert padding in (0, 1)
            if padding:
                assert not x.any()
                assert not y.any()
            else:
                np.testing.assert_array_equal(y, np.eye(CLASSES)[known[tuple(x)]])


def test_every_record_is_drawn_at_the_rate(run):
    for rank in (0, 2):
        present = drawn(run, rank)
        counts = present.sum(axis=0)
        assert count_p_value(counts.sum(), present.size, RATE) > ALARM
        assert min(count_p_value(c, STEPS, RATE) for c in counts) * len(counts) > ALARM
        assert count_p_value(counts.sum(), present.size, 0.7 * RATE) < ALARM  # 17 deviations off


def test_records_steps_and_parties_are_drawn_independently(run):
    """Two independent records, steps or parties agree with probability q^2 + (1 - q)^2."""
    first, last = drawn(run, 0), drawn(run, 2)
    agree = RATE**2 + (1 - RATE) ** 2
    for a, b in (
        (first[:, ::2], first[:, 1::2]),
        (first[::2], first[1::2]),
        (first[:, :25], last),
    ):
        assert count_p_value(int((a == b).sum()), a.size, agree) > ALARM


def test_seeds_of_a_script_have_no_influence(pools):
    """Equal draws of 65 records have probability below 2^-40 at this rate."""
    assert (0.3**2 + 0.7**2) ** 65 < 2.0**-40
    for options, same in (({}, False), ({"fixed": 3}, True)):
        runs = [
            pools.run(
                3,
                f"{TASKS}:sample",
                per_party=[numbered(rank) for rank in range(3)],
                steps=2,
                sample_rate=RATE,
                classes=CLASSES,
                **options,
            )[0]["batches"]
            for _ in range(2)
        ]
        pairs = [*zip(*runs, strict=True)]
        assert all(np.array_equal(a["x"], b["x"]) == same for a, b in pairs)
        assert not np.array_equal(runs[0][0]["x"], runs[0][1]["x"])


def test_a_rate_of_one_is_everything_without_padding(pools):
    per_party = [numbered(rank) for rank in range(3)]
    options = {"steps": 1, "sample_rate": 1.0, "classes": CLASSES}
    (batch,) = pools.run(3, f"{TASKS}:sample", per_party=per_party, **options)[0]["batches"]
    x = np.concatenate([party["x"] for party in per_party if party["x"] is not None])
    np.testing.assert_array_equal(batch["x"], np.rint(x * 2**F).astype(int))
    assert not batch["padding"].any()


def test_a_party_without_the_last_class_has_a_target_of_it_all_the_same(pools):
    """Nobody says how many classes there are."""
    options = {"steps": 1, "sample_rate": 1.0}
    own = [{"x": np.full((2, 1), 0.25), "y": np.array([0, last])} for last in (1, 3, 0)]
    (batch,) = pools.run(3, f"{TASKS}:sample", per_party=own, **options)[0]["batches"]
    expected = np.eye(4)[[0, 1, 0, 3, 0, 0]]
    np.testing.assert_array_equal(batch["y"], expected)


@pytest.mark.parametrize(
    "kind",
    [
        list,
        lambda y: np.array(y, dtype=object),
        lambda y: np.array([np.int8(each) for each in y], dtype=object),
        lambda y: np.array([bool(each) for each in y]),
        lambda y: np.array([bool(each) for each in y], dtype=object),
    ],
    ids=["list", "objects", "numpy's objects", "bool", "bool objects"],
)
def test_labels_are_numbers_of_any_kind(pools, kind):
    own = [{"x": np.full((2, 1), 0.25), "y": kind([0, 1])} for _ in range(3)]
    options = {"steps": 1, "sample_rate": 1.0}
    (batch,) = pools.run(3, f"{TASKS}:sample", per_party=own, **options)[0]["batches"]
    np.testing.assert_array_equal(batch["y"], np.eye(2)[[0, 1] * 3])


GOOD = {"x": np.full((5, 3), 0.25), "y": np.arange(5) % 3, "classes": 3}
NAN = np.where(np.eye(5, 3) > 0, np.nan, 0.25)
OWN = {
    "NaN": ({"x": NAN}, "features = 'row 0, column 0': data"),
    "infinity": ({"x": NAN * math.inf}, "features = 'row 0, column 0': data"),
    "far row": ({"x": np.ones((5, 3))}, "features = 'row 0': data"),
    "label": ({"y": np.full(5, 3)}, "labels = 'row 0': data"),
    "negative label": ({"y": np.full(5, -1)}, "labels = 'row 0': data"),
    "half a label": ({"y": np.full(5, 0.5)}, "labels = 'row 0': data"),
    "target": ({"y": np.full((5, 3), 1.5)}, "labels = 'targets': data"),
    "columns": ({"y": np.zeros((5, 4))}, r"labels = \(5, 4\):"),
    "lengths": ({"y": np.zeros(4)}, r"y = \(4,\):"),
    "vector": ({"x": np.zeros(5)}, r"x = \(5,\):"),
    "no rows": ({"x": np.zeros((0, 3)), "y": np.zeros(0)}, r"x = \(0, 3\):"),
    "words": ({"x": np.full((5, 3), "a")}, "x = 'an array of <U1':"),
    "numbers as words": ({"y": np.full(5, "1")}, "y = 'an array of <U1':"),
    "complex": ({"x": np.full((5, 3), 0.1 + 1j)}, "x = 'an array of complex128':"),
    "complex labels": ({"y": np.zeros(5, complex)}, "y = 'an array of complex128':"),
    "huge label": ({"y": np.full(5, 10**9)}, "y = 'one beyond all classes'"),
    "words as objects": (
        {"y": np.array([*"abc", 1, None], dtype=object)},
        "y = 'an array of objects of type NoneType, str':",
    ),
    "numbers as words as objects": (
        {"y": np.array([*"01201"], dtype=object)},
        "y = 'an array of objects of type str':",
    ),
    "no numbers among features": (
        {"x": np.full((5, 3), None)},
        "x = 'an array of objects of type NoneType':",
    ),
    "word labels": ({"y": np.full(5, "a")}, "y = .an array of <U"),
    "half given": ({"y": None}, "y = None:"),
    "encrypted": ({"encrypt": True}, "x = 'an encrypted tensor':"),
}
TOGETHER = {
    "sample rate": ({"sample_rate": 0.4}, "sample_rate = 0.5 at parties 0 and 2, 0.4 at party 1"),
    "steps": ({"steps": 3}, "steps = 2 at parties 0 and 2, 3 at party 1"),
    "feature norm": ({"max_feature_norm": 2.0}, "max_feature_norm = 1 at parties 0 and 2, 2 at"),
    "overflow": (
        {"overflow_probability": 1e-8},
        "overflow_probability = 1e-09 at parties 0 and 2, 1e-08",
    ),
    "precision": ({"frac_bits": 16}, "frac_bits = 20 at parties 0 and 2, 16 at party 1"),
    "classes": ({"classes": 4}, "classes = 3 at parties 0 and 2, 4 at party 1"),
    "no rate": ({"sample_rate": 2.0}, "sample_rate = 0.5 at parties 0 and 2, 2 at party 1"),
    "a word's rate": ({"sample_rate": "a"}, "sample_rate = 0.5 at parties 0 and 2, 'a' at party 1"),
    "no steps": ({"steps": 0}, "steps = 2 at parties 0 and 2, 0 at party 1"),
    "no norm": (
        {"max_feature_norm": math.nan},
        "max_feature_norm = 1 at parties 0 and 2, 'nan'",
    ),
    "no classes": ({"classes": -1}, "classes = 3 at parties 0 and 2, -1 at party 1"),
    "widths": ({"x": np.full((5, 2), 0.25)}, r"x = 'rows of \[2, 3\] features':"),
}
EVERYWHERE = {
    "no records": ({"x": None, "y": None}, "x = None: missing"),
    "all encrypted": ({"encrypt": True}, "x = 'an encrypted tensor'"),
    "all without a rate": (
        {"sample_rate": math.inf},
        "sample_rate = inf:",
    ),
    "all with half a step": ({"steps": 2.5}, "steps = 2.5:"),
    "all without a norm": ({"max_feature_norm": "a"}, "max_feature_norm = 'a':"),
    "all without classes": ({"classes": 0}, "classes = 0:"),
    "all overflowing": (
        {"overflow_probability": 1.5},
        "overflow_probability = 1.5:",
    ),
}
SEVERAL = {
    "target widths": [{"y": np.eye(3)[GOOD["y"]]}, {"y": np.eye(4)[GOOD["y"]]}, {}],
    "more labels than columns": [{"y": np.eye(3)[GOOD["y"]]}, {"y": np.arange(5)}, {}],
}


@pytest.fixture(scope="module")
def refusals(pools: Pools) -> dict[str, list[Any]]:
    """What each party was told in each attempt, and the collectives it took part in."""
    plans = {
        **{name: [{}, bad, {}] for name, (bad, _) in {**OWN, **TOGETHER}.items()},
        **{name: [bad] * 3 for name, (bad, _) in EVERYWHERE.items()},
        **{name: [{"classes": None, **own} for own in each] for name, each in SEVERAL.items()},
    }
    results = pools.run(
        3,
        f"{TASKS}:attempt",
        per_party=[
            {"attempts": [{**GOOD, **plan[rank]} for plan in plans.values()]} for rank in range(3)
        ],
    )
    return dict(zip(plans, zip(*results, strict=True), strict=True))


def check(found: list[Any], messages: list[str], rounds: int = 1) -> None:
    for ((kind, text), collectives), message in zip(found, messages, strict=True):
        assert kind == "ArgumentError"
        assert re.search(message, text), text
        assert collectives == ["all_gather"] * rounds


@pytest.mark.parametrize("name", OWN)
def test_bad_records_of_one_party_are_refused_by_all(refusals, name):
    others = "refused by party 1'.*Nothing was shared"
    check(refusals[name], [others, OWN[name][1], others])


@pytest.mark.parametrize("name", TOGETHER)
def test_differences_between_parties_are_told_to_all(refusals, name):
    """Settings are compared by a digest; only where it differs do they follow, in two rounds."""
    check(refusals[name], [TOGETHER[name][1]] * 3, 1 if name == "widths" else 3)


@pytest.mark.parametrize("name", EVERYWHERE)
def test_what_all_do_wrong_is_told_to_all(refusals, name):
    check(refusals[name], [EVERYWHERE[name][1]] * 3)


@pytest.mark.parametrize("name", SEVERAL)
def test_targets_for_different_numbers_of_classes_are_refused(refusals, name):
    check(refusals[name], [r"y = 'labels for \[3, [45]\] classes'"] * 3)
