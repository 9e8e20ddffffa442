"""The benchmark of additive models measures all of them on the same records."""

import pytest

from benchmarks.defaults import additive


@pytest.mark.filterwarnings("ignore")
def test_a_row_has_all_models_of_one_table():
    pytest.importorskip("interpret")
    (table,) = additive.main.__wrapped__(splits=2, data=["wine"])
    assert [row["epsilon"] for row in table.rows] == list(additive.EPSILONS)
    for row in table.rows:
        assert row["records"] == 142
        assert row["looked at"]
        models = ("auto", "additive", "linear", "whitened", "DP-EBM", "EBM", "boosting")
        assert all(0.0 <= row[model] <= 1.0 for model in models)
    assert table.rows[-1]["auto"] > 0.95
    assert table.rows[0]["EBM"] > 0.95


def test_splits_keep_records_apart():
    made = additive.TABLES["wine"]()
    x, y, test, expected = additive._split(made, 0)
    assert len(y) == 142
    assert len(expected) == 36
    assert {len(column) for column in x.values()} == {142}
    assert {len(column) for column in test.values()} == {36}
