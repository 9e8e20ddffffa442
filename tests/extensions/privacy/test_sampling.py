"""Poisson batches are drawn at their rate from checked records, and padded to a public size.

The overflow probability is compared with exact fractions; rates and batch sizes with exact
binomial tails (`ALARM` each).
"""

import functools
import math
import tracemalloc
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import (
    OwnRecords,
    capacity,
    check_labels,
    check_records,
    check_sample_rate,
    draw_rows,
)
from extensions.ring.fixed_point import encode
from tests.helpers.refused import refused
from tests.helpers.strategies import (
    ALARM,
    PRESETS,
    count_p_value,
    histogram_p_value,
    squared_length,
)


def tail(records: int, sample_rate: float, rows: int) -> Fraction:
    """Returns the exact probability that more than `rows` records are drawn."""
    q = Fraction(sample_rate)
    return sum(
        (
            math.comb(records, k) * q**k * (1 - q) ** (records - k)
            for k in range(rows + 1, records + 1)
        ),
        start=Fraction(0),
    )


@pytest.mark.parametrize("overflow", [0.5, 1e-3, 1e-9, 1e-15])
@pytest.mark.parametrize(
    ("records", "rate"), [(1, 0.3), (10, 0.5), (60, 0.01), (200, 0.1), (40, 0.97)]
)
def test_capacity_is_the_smallest_that_holds(records, rate, overflow):
    rows = capacity(records, rate, overflow)
    assert 1 <= rows <= records
    assert tail(records, rate, rows) <= overflow
    if rows > 1:
        assert tail(records, rate, rows - 1) > overflow


def test_capacity_of_a_rate_of_one_is_everything():
    assert capacity(17, 1.0, 1e-9) == 17


@pytest.mark.parametrize("probability", [1.0, -0.1, math.nan])
def test_capacity_names_an_impossible_probability(probability):
    with refused("overflow_probability", "range", value=probability):
        capacity(10, 0.1, probability)


@pytest.mark.parametrize("rate", [0.0, -0.5, 1.0001, math.nan])
def test_impossible_rates_are_named(rate):
    for call in (check_sample_rate, lambda q: capacity(10, q, 1e-9)):
        with refused("sample_rate", "range", value=rate):
            call(rate)
    assert check_sample_rate(1.0) == 1.0


@functools.cache
def numbered(records: int, features: int = 3) -> OwnRecords:
    """Returns records that can be told apart: record i holds i + 1."""
    x = np.outer(np.arange(1, records + 1), np.ones(features)) / 16
    y = np.arange(records) % 4
    return check_records(x, y, frac_bits=16, classes=4, max_feature_norm=64.0)


def test_real_rows_come_first_and_padding_is_zero():
    records, source = numbered(40), SystemSource()
    for _ in range(50):
        rows = draw_rows(records, party=0, sample_rate=0.3, rows=40, source=source)
        real = int((rows.padding == 0).sum())
        np.testing.assert_array_equal(rows.padding, np.arange(40) >= real)
        chosen = rows.x[:real, 0] * 16 // 2**16 - 1
        assert len(set(chosen.tolist())) == real
        np.testing.assert_array_equal(rows.x[:real], records.features[chosen])
        np.testing.assert_array_equal(rows.y[:real], records.labels[chosen])
        assert not rows.x[real:].any()
        assert not rows.y[real:].any()
        assert rows.squared_norms.tolist() == [squared_length(row) for row in rows.x]


def test_every_record_is_drawn_at_the_rate_and_the_batch_size_is_binomial():
    records, rate, draws = 30, 0.15, 3000
    seen = np.zeros(records, dtype=np.int64)
    sizes = np.zeros(records + 1, dtype=np.int64)
    for _ in range(draws):
        rows = draw_rows(
            numbered(records), party=0, sample_rate=rate, rows=records, source=SystemSource()
        )
        real = rows.padding == 0
        seen[rows.x[real, 0] * 16 // 2**16 - 1] += 1
        sizes[real.sum()] += 1
    law = stats.binom(records, rate)
    assert histogram_p_value(sizes.tolist(), law.pmf(np.arange(records + 1)).tolist()) > ALARM
    assert records * min(count_p_value(int(n), draws, rate) for n in seen) > ALARM
    assert count_p_value(int(seen.sum()), records * draws, rate) > ALARM
    assert count_p_value(int(seen.sum()), records * draws, rate * 1.1) < ALARM
    fixed = np.zeros_like(sizes)
    fixed[round(records * rate)] = draws
    assert histogram_p_value(fixed.tolist(), law.pmf(np.arange(records + 1)).tolist()) < ALARM


def test_overflow_keeps_exactly_as_many_as_fit_and_favours_none():
    records, kept = numbered(20), np.zeros(20, dtype=np.int64)
    for _ in range(2000):
        rows = draw_rows(records, party=0, sample_rate=1.0, rows=5, source=SystemSource())
        assert not rows.padding.any()
        chosen = rows.x[:, 0] * 16 // 2**16 - 1
        assert len(set(chosen.tolist())) == 5
        kept[chosen] += 1
    assert 20 * min(count_p_value(int(n), 2000, 0.25) for n in kept) > ALARM


GOOD = {"frac_bits": 16, "classes": 3, "max_feature_norm": 5.0}


@pytest.mark.parametrize("frac_bits", PRESETS)
def test_boundary_records_are_accepted(frac_bits):
    x = [[3.0, 4.0], [-5.0, 0.0], [0.0, 0.0], [5.0 * math.cos(1.0), 5.0 * math.sin(1.0)]]
    records = check_records(x, [0, 2, 1, 0], **{**GOOD, "frac_bits": frac_bits})
    assert len(records) == 4
    assert records.frac_bits == frac_bits
    np.testing.assert_array_equal(records.features, np.rint(np.array(x) * 2**frac_bits))
    np.testing.assert_array_equal(records.labels, np.eye(3)[[0, 2, 1, 0]] * 2**frac_bits)


def test_rounding_to_the_ring_is_no_reason_to_refuse_a_row_at_the_bound():
    angles = np.linspace(0.1, 6.0, 101)
    x = 5.0 * np.column_stack([np.cos(angles), np.sin(angles)])
    records = check_records(x, np.zeros(101), **GOOD)
    assert np.linalg.norm(records.features / 2**16, axis=1).max() > 5.0


@pytest.mark.parametrize(
    ("labels", "targets"),
    [
        ([0.0, 2.0], [[1, 0, 0], [0, 0, 1]]),
        (np.array([1, 0], dtype=np.uint8), [[0, 1, 0], [1, 0, 0]]),
        (np.array([True, False]), [[0, 1, 0], [1, 0, 0]]),
        ([[0.0, 1.0, 0.0], [0.25, 0.5, 0.25]], [[0, 1, 0], [0.25, 0.5, 0.25]]),
    ],
)
def test_labels_may_be_integers_or_targets(labels, targets):
    records = check_records([[1.0], [2.0]], labels, **GOOD)
    np.testing.assert_array_equal(records.labels, np.array(targets) * 2**16)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_missing_features_are_named_with_their_place(bad):
    with refused("features", "data", "row 2, column 1") as caught:
        check_records([[1, 1], [2, 2], [3, bad], [bad, 4]], [0, 0, 0, 0], **GOOD)
    assert caught.value.argument == "features"


def test_a_row_beyond_the_bound_is_named():
    with refused("features", "data", "row 1"):
        check_records([[5.0, 0.0], [0.0, 5.01], [0.0, 5.005]], [0, 0, 0], **GOOD)


def test_a_bound_that_is_none_refuses_every_row():
    with refused("features", "data", "row 0"):
        check_records([[1.0]], [0], frac_bits=16, classes=3, max_feature_norm=math.nan)


@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 0), (2, 2, 2)])
def test_features_of_another_shape_are_refused(shape):
    with refused("features", "shape", shape):
        check_records(np.ones(shape), [0, 1], **GOOD)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2), (2, 4), (2, 3, 1)])
def test_labels_of_another_shape_are_refused(shape):
    with refused("labels", "shape", shape):
        check_records([[1.0], [2.0]], np.zeros(shape), **GOOD)


@pytest.mark.parametrize("bad", [3, -1, 0.5, math.nan, math.inf, 1e300, "cat", None])
def test_the_record_of_a_label_that_is_no_class_is_named_and_never_the_label(bad):
    with refused("labels", "data", "row 0") as caught:
        check_records([[1.0]], [bad], **GOOD)
    assert repr(bad) not in str(caught.value).removesuffix("an integer in 0..2.")


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.uint64, np.float16, np.float64])
def test_labels_are_checked_without_a_list_of_all_classes(kind):
    check_labels(np.array([0, 1], dtype=kind), 10**15)
    with refused("labels", "data", "row 1"):
        check_labels(np.array([0, 1], dtype=kind), 1)


@pytest.mark.parametrize(
    "bad", [-0.1, 1.1, math.nextafter(0.0, -1.0), math.nextafter(1.0, 2.0), math.nan, math.inf]
)
def test_targets_outside_their_range_are_refused(bad):
    with refused("labels", "data", "targets"):
        check_records([[1.0]], [[0.0, bad, 0.0]], **GOOD)


SEVERAL_BLOCKS = 40_000, 4
"""Records that are checked in more than one block."""


def test_blocks_are_those_of_the_whole():
    x = np.random.default_rng(0).uniform(-2.0, 2.0, SEVERAL_BLOCKS)
    y = np.arange(len(x)) % 3
    records = check_records(x, y, **GOOD)
    np.testing.assert_array_equal(records.features, encode(x, 16))
    np.testing.assert_array_equal(records.labels, np.eye(3, dtype=np.int64)[y] << 16)
    targets = np.linspace(0.0, 1.0, 3 * len(x)).reshape(-1, 3)
    np.testing.assert_array_equal(check_records(x, targets, **GOOD).labels, encode(targets, 16))


@pytest.mark.parametrize(
    ("bad", "code", "told"),
    [
        (math.nan, "data", "row 39998, column 2"),
        (1e300, "range", "a number that is too large"),
        (6.0, "data", "row 39998"),
    ],
)
def test_a_value_in_a_late_block_is_named_with_its_place(bad, code, told):
    x, y = np.zeros(SEVERAL_BLOCKS), np.zeros(SEVERAL_BLOCKS[0])
    x[39_998, 2] = bad
    with refused("features", code, told) as caught:
        check_records(x, y, **GOOD)
    assert "norm 6" not in str(caught.value)
    y[39_999] = 3
    with refused("labels", "data", "row 39999"):
        check_records(np.zeros(SEVERAL_BLOCKS), y, **GOOD)


def peak_of(call):
    """The most bytes that a call has allocated at once."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("targets", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_records_are_checked_in_one_and_a_half_of_their_memory(targets, dtype):
    """Their memory is that of 64-bit words, which the result alone takes once."""
    records, features, classes = 40_000, 64, 10
    x = np.full((records, features), 0.1, dtype=dtype)
    y = np.full((records, classes), 0.1) if targets else np.zeros(records)
    whole = 8 * records * (features + classes)
    check = partial(check_records, x, y, **{**GOOD, "classes": classes})
    check()
    assert whole <= peak_of(check) < 1.5 * whole


@pytest.mark.parametrize("kind", [complex, str, "M8[s]"])
def test_arrays_of_no_real_numbers_are_refused_by_name(kind):
    good = {"features": np.ones((3, 2)), "labels": np.eye(3)}
    for name in good:
        wrong = good[name].astype(np.int64).astype(kind)
        with refused(name, "type", f"an array of {wrong.dtype}"):
            check_records(**{**good, name: wrong}, **GOOD)
    with refused("features", "type", "list"):
        check_records([[1.0], [1.0, 2.0]], good["labels"], **GOOD)
