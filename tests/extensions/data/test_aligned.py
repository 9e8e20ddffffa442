"""Aligned rows and what lies beside them: written as they are read, and nothing else is read."""

import json
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.data.aligned import Alignment
from extensions.data.datasets import read_cells
from tests.helpers.refused import refused

GOOD = Alignment(2, "ab" * 32, ("bank", "telco"), (3, 2), "telco")


def table(**columns):
    return {name: np.array(cells, object) for name, cells in columns.items()}


cells = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=6)


@given(rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=5), data=st.data())
def test_rows_are_read_as_they_were_written(rows, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("aligned")
    order = data.draw(st.permutations(range(len(rows))))
    first, second = zip(*rows, strict=True)
    GOOD.write(folder / "a.csv", table(x=first, y=second), order, ";")
    found = read_cells(folder / "a.csv", ";")
    assert [*zip(found["x"], found["y"], strict=True)] == [rows[row] for row in order]
    assert Alignment.read(Alignment.beside(folder / "a.csv")) == GOOD


def test_values_of_parquet_become_text_and_both_files_are_private(tmp_path):
    out = tmp_path / "new" / "a.csv"
    GOOD.write(out, table(x=[1.5, None], y=[7, True]), [1, 0], ",")
    assert out.read_text() == "x,y\n,True\n1.5,7\n"
    for path in (out, tmp_path / "new" / "alignment.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


WRONG = {
    "rows": [-1, 3, True, "2", None, 1.0],
    "order": ["", "ab" * 31, "AB" * 32, 7, None],
    "members": [["bank"], ["bank", "bank"], ["bank", 7], "ab", 7, [["bank"], ["telco"]]],
    "sizes": [[3], [3, 2, 2], [1, 3], ["3", "2"], None],
    "owner": ["insurer", None, ["telco"]],
    "format": [2, "1", None],
    "more": [1],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, each in WRONG.items() for v in each])
def test_what_is_no_alignment_is_refused(name, value, tmp_path):
    GOOD.write(tmp_path / "a.csv", table(x=["1", "2"]), [0, 1], ",")
    path = tmp_path / "alignment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with refused("alignment", "file", str(path)):
        Alignment.read(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", "[" * 100_000, "\udcff"])
def test_other_texts_are_refused(text, tmp_path):
    path = tmp_path / "alignment.json"
    with refused("alignment", "file"):
        Alignment.read(path)
    path.write_text(text, errors="surrogateescape")
    with refused("alignment", "file"):
        Alignment.read(path)
