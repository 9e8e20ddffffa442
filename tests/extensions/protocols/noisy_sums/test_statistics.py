"""Noisy sufficient statistics: the exact bound of one record, and the model that they make."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import load, split_among
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import OwnRecords, check_records
from extensions.protocols.host import pairs
from extensions.protocols.noise import party_variance
from extensions.protocols.noisy_sums.second_moment import FRAC_BITS
from extensions.protocols.noisy_sums.statistics import (
    centred_labels,
    check_statistics,
    check_targets,
    damping_of,
    fit,
    fitted,
    levels,
    own_statistics,
    sensitivity,
)
from extensions.protocols.optimizer import State
from extensions.protocols.pea import RunCallbacks, public_start
from extensions.protocols.records import Records
from extensions.ring.fixed_point import Integers, decode
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM, variance_p_value

B = Fraction(7, 10)
CONFIG = TrainConfig(
    backend="clear",
    method="statistics",
    loss="least-squares",
    steps=1,
    sample_rate=1.0,
    noise_multiplier=1.0,
    delta=1e-5,
)


def records_of(x: Any, y: Any, classes: int, *, bits: int = 20, norm: float = 1.0) -> OwnRecords:
    return check_records(x, y, frac_bits=bits, classes=classes, max_feature_norm=norm)


def product(one: list[Integers], other: list[Integers], classes: int) -> Fraction:
    """The inner product of two vectors of statistics, exactly."""
    diagonal, upper, labels = (
        sum(a * b for a, b in zip(p.ravel().tolist(), q.ravel().tolist(), strict=True))
        for p, q in zip(one, other, strict=True)
    )
    scaled = diagonal + 2 * upper + (B / levels(classes)) ** 2 * labels
    return scaled / Fraction(4) ** (2 * FRAC_BITS)


def rows(columns: int, norm: float) -> Iterator[Any]:
    """Rows as long as they may be: even, along an axis, negative, and random ones."""
    draws = np.random.default_rng(columns)
    yield np.full(columns, norm / math.sqrt(columns))
    yield np.eye(columns)[-1] * norm
    yield np.where(np.arange(columns) % 2, -1.0, 1.0) * norm / math.sqrt(columns)
    for _ in range(4):
        row = draws.normal(size=columns)
        yield row * norm / np.linalg.norm(row)


def targets(classes: int) -> Iterator[Any]:
    draws = np.random.default_rng(classes)
    if classes == 1:
        yield from ([[0.0]], [[1.0]], [[0.3]])
        return
    yield from ([0], [classes - 1])
    for alpha in (0.05, 1.0):
        yield draws.dirichlet([alpha] * classes)[None]
    yield np.full((1, classes), 1.0 / classes)


@pytest.mark.parametrize("bits", [12, 18, 20, 24])
@pytest.mark.parametrize("norm", [1.0, 4.0, 0.3])
@pytest.mark.parametrize("classes", [1, 2, 3, 10])
def test_no_record_moves_the_sums_further_than_the_sensitivity(classes, norm, bits):
    spread = 1 - Fraction(1, classes) if classes > 1 else Fraction(1, 4)
    limit = 1 + B**2 * spread
    assert sensitivity(classes) == pytest.approx(math.sqrt(limit), rel=1e-12)
    found = []
    for x, y in itertools.product(rows(5, norm), targets(classes)):
        one = own_statistics(records_of(x[None], y, classes, bits=bits, norm=norm), norm)
        found.append(product(one, one, classes))
    assert max(found) <= limit
    assert max(found) > limit * (1 - Fraction(1, 2 ** (min(bits, FRAC_BITS) - 4)))


def of_replaced(classes: int) -> float:
    """Returns how far all sums move at most with a record that is another.

    Two vectors of norm D have the product (x . x')^2 + b^2 (x . x') t, where t, of centred labels,
    is in -1/K .. 1 - 1/K (of one target in -1/4 .. 1/4). With c = x . x' in -1..1 that is at least
    -b^4 t^2 / 4 at c = -b^2 t / 2, so the squared distance is at most 2 D^2 + b^4 t^2 / 2.
    """
    spread = 1.0 - 1.0 / classes if classes > 1 else 0.25
    return math.sqrt(2.0 * sensitivity(classes) ** 2 + float(B) ** 4 * spread**2 / 2.0)


@pytest.mark.parametrize("classes", [1, 2, 10])
def test_nor_does_one_that_is_replaced(classes):
    """It is nearly attained: by two rows at slightly more than a right angle, labelled alike."""
    spread = 1 - 1 / classes if classes > 1 else 0.25
    cosine = -(float(B) ** 2) * spread / 2
    apart = np.array([cosine, math.sqrt(1 - cosine**2)])
    limit, found = of_replaced(classes), []
    vectors = [*rows(2, 1.0), np.array([1.0, 0.0]), apart, -apart]
    cases = [*itertools.product(vectors, targets(classes))]
    made = [own_statistics(records_of(x[None], y, classes), 1.0) for x, y in cases]
    for one, other in itertools.combinations(made, 2):
        moved = [a - b for a, b in zip(one, other, strict=True)]
        found.append(math.sqrt(product(moved, moved, classes)))
    assert 0.9999 * limit < max(found) <= limit <= 2 * sensitivity(classes)


def test_persons_count_with_all_their_records():
    x, y = np.array([[1.0, 0.0]] * 3), [1, 1, 1]
    found = own_statistics(records_of(x, y, 4), 1.0)
    length = math.sqrt(product(found, found, 4))
    assert 0.9999 * sensitivity(4, 3) < length <= sensitivity(4, 3)


def test_targets_that_are_no_probabilities_are_refused():
    ones = records_of(np.eye(2), np.ones((2, 3)), 3)
    with refused("labels", "data", "the targets of 2 records"):
        check_targets(ones)
    check_targets(replace(ones, empty=np.ones(2, dtype=np.int64)))
    check_targets(records_of(np.eye(2), [[0.2], [0.9]], 1))
    thirds = records_of(np.eye(3), np.full((3, 3), 1 / 3), 3)
    check_targets(thirds)
    assert (centred_labels(thirds).sum(axis=1) == 0).all()


@pytest.mark.parametrize("frac_bits", [FRAC_BITS - 2, FRAC_BITS, FRAC_BITS + 5])
def test_labels_are_centred_in_one_scale_whatever_the_records_have(frac_bits):
    labels = np.eye(3, dtype=np.int64)[[2, 0]] << frac_bits
    own = replace(records_of(np.eye(2), np.zeros((2, 3)), 3), labels=labels, frac_bits=frac_bits)
    expected = levels(3) * (np.eye(3)[[2, 0]] * 2.0**FRAC_BITS) - 2.0**FRAC_BITS
    np.testing.assert_array_equal(centred_labels(own), expected)


def test_too_many_records_for_the_ring_are_refused():
    few = Records(own=[], sizes=(1 << 20, 1 << 20), features=4)
    check_statistics(CONFIG, few)
    many = replace(few, sizes=(1 << 22, 1 << 22))
    with refused("records", "range", value=8388608):
        check_statistics(CONFIG, many)


@pytest.mark.parametrize(("epsilon", "damping"), [(2.0, 30.0), (1.0, 50.0), (0.5, 80.0)])
def test_the_damping_follows_from_the_noise(epsilon, damping):
    """Within a fifth of what was found best for MNIST, with 1,024 columns."""
    config = replace(CONFIG, noise_multiplier=None, epsilon=epsilon, delta=1 / 600_000).resolved()
    assert damping_of(config, 1024) == pytest.approx(damping, rel=0.2)


class Noted(RunCallbacks):
    """Notes what is opened."""

    def open(self, name: str, compute: Any) -> list[Integers]:
        assert name == "statistics"
        self.opened = super().open(name, compute)
        return self.opened


def fitted_by(config: TrainConfig, records: Records) -> tuple[Any, list[Integers], Ledger]:
    parties = len(records.sizes)
    host = ClearHost(20, parties=parties, owners=parties, source=SystemSource())
    keep, ledger = Noted(host), Ledger()
    start = State(pairs(public_start(config, records.features)))
    return fit(config, host, records, start, ledger, keep), keep.opened, ledger


@pytest.fixture(scope="module")
def digits() -> Any:
    """Rows, labels, and records of three owners."""
    parts = split_among(load("digits", None, 0), 3)
    owned = [records_of(part.train_x, part.train_y, 10) for part in parts]
    x, y = (np.concatenate([getattr(p, n) for p in parts]) for n in ("train_x", "train_y"))
    test = [np.concatenate([getattr(p, n) for p in parts]) for n in ("test_x", "test_y")]
    return x, y, Records.agreed(lambda own: own, owned), test


def test_rows_that_may_be_twice_as_long_have_half_the_weights():
    draws, models = np.random.default_rng(1), []
    x, y = draws.uniform(-0.4, 0.4, (40, 5)), draws.integers(0, CONFIG.classes, 40)
    for norm in (1.0, 2.0):
        own = [records_of(norm * x, y, CONFIG.classes, norm=norm)]
        config = replace(CONFIG, parties=1, noise_multiplier=0.0, max_feature_norm=norm)
        model, *_ = fitted_by(config, Records.agreed(lambda own: own, own))
        models.append(decode(np.asarray(model[0][0]), 20))
    np.testing.assert_allclose(models[1], models[0] / 2, atol=2.0**-18)
    assert np.abs(models[0]).max() > 0.05


def test_without_noise_it_is_the_closed_form(digits):
    """Entries of rows are off by 2^-18 at most, toward zero, and rows by 2^-40 of themselves.

    So the products are off by 2 n sqrt(d) 2^-18 in Frobenius norm, and what labels add by
    n sqrt(d K) 2^-18; (s^2 + l^2)^(-1/2) has a slope of 2 / (3 sqrt(3)) l^-2 at most.
    """
    x, y, records, (test_x, test_y) = digits
    exact = np.eye(10)[y] - 0.1
    values, vectors = np.linalg.eigh(x.T @ x)
    damping = 20.0
    wanted = ((vectors / np.hypot(values, damping)) @ vectors.T @ (x.T @ exact)).T
    sums = [own_statistics(each, 1.0) for each in records.own]
    found = fitted([sum(column) for column in zip(*sums, strict=True)], damping)
    n, d, k = len(x), x.shape[1], 10
    off = 2 * n * math.sqrt(d) * 2.0**-FRAC_BITS
    slope = 2 / (3 * math.sqrt(3)) / damping**2
    bound = off * slope * np.linalg.norm(x.T @ exact, 2) + off * math.sqrt(k) / 2 / damping
    assert np.linalg.norm(found - wanted) <= bound
    right = [(test_x @ w.T).argmax(axis=1) == test_y for w in (wanted, found)]
    scores = np.sort(test_x @ wanted.T, axis=1)
    unclear = int((scores[:, -1] - scores[:, -2] < 2 * bound).sum())
    assert abs(int(right[0].sum()) - int(right[1].sum())) <= unclear < 40
    assert right[1].mean() > 0.9


def test_noise_has_the_law_that_is_accounted(digits):
    """Of each of the three sums, by their differences over two runs."""
    x, y, *_ = digits
    owned = Records.agreed(
        lambda own: own, [records_of(x[i::3, ::8], y[i::3], 10) for i in range(3)]
    )
    drawn = [fitted_by(replace(CONFIG, noise_multiplier=2.0), owned)[1] for _ in range(60)]
    sigma = 2.0 * sensitivity(10)
    deviations = (sigma, sigma / math.sqrt(2), sigma * 10 / 0.7)
    for place, deviation in enumerate(deviations):
        apart = [
            one[place] - other[place] for one, other in zip(drawn[::2], drawn[1::2], strict=True)
        ]
        values = np.concatenate([each.ravel() for each in apart]).astype(np.float64)
        variance = 2 * 3 * party_variance(3) * (deviation * 4.0**FRAC_BITS) ** 2
        assert variance_p_value(values, variance) > ALARM


def test_it_is_accounted_as_one_release_of_all_records(digits):
    model, _, ledger = fitted_by(CONFIG, digits[2])
    expected = Ledger()
    expected.record(
        "training",
        noise_multiplier=1.0,
        sample_rate=1.0,
        steps=1,
        overflow_probability=CONFIG.overflow_probability,
    )
    assert ledger.to_json() == expected.to_json()
    ((weight, bias),) = model
    assert weight.shape == (10, 64)
    assert not bias.any()
