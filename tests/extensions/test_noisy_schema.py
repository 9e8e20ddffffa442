"""Ranges and categories of noisy counts: what shows, what that costs, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from extensions.data.schema.cells import Cells
from extensions.estimator import PrivateClassifier, PrivateRegressor, noisy_schema
from extensions.estimator.noisy_schema import SCHEMA, SchemaBudget
from extensions.privacy.accounting import epsilon as epsilon_of
from extensions.runs.budget import read
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM, variance_p_value

RECORDS = 20_000


def cells(values) -> Cells:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


@pytest.fixture(scope="module")
def frame():
    draws = np.random.default_rng(0)
    job = draws.choice(["nurse", "cook", "pilot"], RECORDS)
    job[7] = "queen"
    columns = {
        "year": draws.integers(1960, 2010, RECORDS),
        "share": np.where(draws.random(RECORDS) < 0.1, np.nan, draws.uniform(-0.02, 0.06, RECORDS)),
        "job": job,
    }
    return pd.DataFrame(columns)


def test_a_fit_finds_what_columns_hold_and_says_what_it_cost(frame, tmp_path):
    y = (frame["job"] == "cook") ^ (frame["year"] > 2000)
    ledger = tmp_path / "all.budget.json"
    options = {"schema": "from-data", "epsilon_schema": 0.3, "ledger": ledger}
    found = PrivateClassifier(2.0, delta=1e-5, **options).fit(frame, y.to_numpy())
    year, share, job = found.known_.schema.columns
    assert (year.low, year.high) == pytest.approx((1960, 2010), abs=32)
    assert (share.low, share.high) == pytest.approx((-0.02, 0.06), abs=0.011)
    assert job.categories == ("cook", "nurse", "pilot"), "one record's category does not show"
    assert {each.missing for each in (year, share, job)} == {"indicator"}
    assert found.score(frame, y.to_numpy()) > 0.75
    report = found.report_
    assert 1.99 < report["epsilon"] == found.epsilon_ <= 2.0
    assert report["delta"] == pytest.approx(1e-5)
    assert report["epsilon_schema"] == 0.3
    assert report["epsilon_by_neighbours"]["replace"] > 2.0
    loaded = PrivateClassifier.load(found.save(tmp_path / "model.npz"))
    assert loaded.epsilon_ == found.epsilon_
    schema, training = read(ledger).entries
    assert schema.spent
    assert schema.ledger.opened
    assert schema.epsilon(1e-6) + training.epsilon(9e-6) == pytest.approx(found.epsilon_)


def test_noise_is_what_the_ledger_has():
    budget = SchemaBudget(epsilon=0.5, delta=1e-6)
    (phase,) = budget.account.phases
    assert phase.name == SCHEMA
    spent = epsilon_of(
        noise_multiplier=phase.noise_multiplier,
        sample_rate=1.0,
        steps=1,
        delta=1e-6,
        overflow_probability=phase.overflow_probability,
    )
    assert 0.49 < spent <= 0.5
    assert budget.costs()["add-remove"] == spent
    noise = noisy_schema._noised(np.full(20_000, 50), 30.0) - 50
    assert variance_p_value(noise, 30.0**2) > ALARM
    assert variance_p_value(noise, 33.0**2) < ALARM


def test_a_record_moves_one_count_of_each_column(monkeypatch):
    """Twice of one of numbers; and what is drawn is as wide as the square root of all of them."""
    drawn = []

    def noiseless(counts, deviation):
        drawn.append((counts, deviation))
        return counts.astype(float)

    monkeypatch.setattr(noisy_schema, "_noised", noiseless)
    budget = SchemaBudget(epsilon=1.0, delta=1e-6)
    table = {"a": cells([1.5, 3.0, -4.0] * 500), "b": cells(["x", "y", None] * 500)}
    found = budget.entries(table)
    (phase,) = budget.account.phases
    assert {deviation for _, deviation in drawn} == {phase.noise_multiplier * 3**0.5}
    assert [counts.sum() for counts, _ in drawn] == [1500, 1500, 1000]
    assert found["a"]["range"] == [-4.0, 3.5]
    assert found["b"]["categories"] == ["x", "y"]


def test_of_numbers_near_0_and_of_one_value_alone():
    budget = SchemaBudget(epsilon=5.0, delta=1e-6)
    none, flag = cells([0.0] * 3000), cells([0, 1] * 1500)
    found = budget.entries({"none": none, "flag": flag, "few": cells(["a"] * 3000)})
    low, high = found["none"]["range"]
    assert low <= 0 <= high < 1e-5
    assert found["flag"]["range"] == [0.0, 1.5]
    assert "few" not in found, "one category tells nothing"


def test_the_range_of_a_target_is_counted_too(frame):
    y = 300.0 + frame["year"].to_numpy()
    found = PrivateRegressor(2.0, schema="from-data", epsilon_schema=0.5).fit(frame, y)
    low, high = found.known_.schema.target.range
    assert 2200 < low < 2300 < high < 2400
    assert "y" not in [each.name for each in found.known_.schema.columns]


def test_what_cannot_be_is_refused(frame):
    y = np.arange(RECORDS) % 2
    given = {"schema": "from-data", "epsilon_schema": 0.5}
    with refused("epsilon_schema", "range", 2.0):
        PrivateClassifier(2.0, schema="from-data", epsilon_schema=2.0).fit(frame, y)
    with refused("epsilon_schema", "conflict", 0.5):
        PrivateClassifier(epsilon_schema=0.5).fit(frame[["year"]], y)
    with refused("federation", "conflict", "f.toml"):
        PrivateClassifier(**given, federation="f.toml").fit(frame, y)
    with refused("epsilon_schema", "conflict", 0.5):
        PrivateClassifier(**given).plan(frame, y)
    with refused("epsilon_schema", "range", 0.5):
        PrivateClassifier(**given).fit(frame[:50], y[:50])
    # All records are in one cell of `flat`, 8 deviations of a count, and at most 0.1 in any of the
    # target's, of which one shows in 3e-4 of all runs.
    frame = frame[["job"]].assign(flat=3.0)
    with refused("target", "missing", None):
        scattered = (-1.0) ** y * 2.0 ** (np.arange(RECORDS) // 2 % 60 - 20)
        PrivateRegressor(schema="from-data", epsilon_schema=0.002).fit(frame, scattered)
