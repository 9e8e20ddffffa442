"""Parquet files: each type is read as the same records in a CSV file, or its column is named."""

import datetime
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import Columns, classes_in, columns_in, load_own, read_cells
from extensions.data.datasets.tables import features_in, labels_in
from extensions.data.schema import Number, Schema, Target, Unit, draft, encode_table
from tests.helpers.refused import refused

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SCHEMA = Schema(
    basis="public",
    target=Target(column="y", classes=("no", "yes")),
    columns=(Number(name="x", low=0, high=10),),
    unit=Unit(column="who", rows=2),
)
NOON = datetime.datetime(2020, 3, 1, 12, 30)


def written(folder: Path, columns: Mapping[str, Any], name: str = "own.parquet") -> Path:
    path = folder / name
    parquet.write_table(pyarrow.table(dict(columns)), path)
    return path


def csv_of(folder: Path, columns: Mapping[str, Any]) -> Path:
    path = folder / "own.csv"
    rows = zip(*columns.values(), strict=True)
    lines = [",".join("" if each is None else str(each) for each in row) for row in rows]
    path.write_text("\n".join([",".join(columns), *lines]), encoding="utf-8")
    return path


def labels_of(path: Path) -> list[str]:
    return labels_in(path, read_cells(path), Columns(label="y"))


def encoded(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


@pytest.mark.parametrize(
    "kind",
    [
        *(pyarrow.binary(), pyarrow.large_binary(), pyarrow.string(), pyarrow.large_string()),
        *(pyarrow.string_view(), pyarrow.binary_view()),
        pyarrow.dictionary(pyarrow.int8(), pyarrow.binary()),
        pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
    ],
)
def test_bytes_and_dictionaries_are_their_texts(kind, tmp_path):
    texts = ["caf\u00e9", "dull", "caf\u00e9"]
    value = getattr(kind, "value_type", kind)
    array = pyarrow.array(encoded(*texts)).cast(value)
    array = array if value == kind else array.dictionary_encode().cast(kind)
    strings = written(tmp_path, {"text": texts, "y": texts}, "strings.parquet")
    own = written(tmp_path, {"text": array, "y": array})
    columns = Columns(label="y", text="text")
    ours, theirs = load_own([own, strings], 0, columns=columns)
    assert classes_in(ours.recipe) == classes_in(theirs.recipe) == ("caf\u00e9", "dull")
    assert sorted(ours.train_x) == sorted(theirs.train_x)


@pytest.mark.parametrize("value", [b"\xff", "\u00e4".encode("latin-1"), b"\x00\x9f"])
@pytest.mark.parametrize("column", ["x", "y", "note"])
def test_bytes_that_are_no_text_name_their_column(value, column, tmp_path):
    columns = {"x": [1, 2, 3], "y": ["no", "yes", "no"]} | {column: [value, b"a", b"b"]}
    with refused("records", "data", f"own.parquet, column {column}"):
        read_cells(written(tmp_path, columns))


NUMBERS = {
    "int8": ([1, 2, 3], pyarrow.int8()),
    "uint64": ([1, 2, 3], pyarrow.uint64()),
    "float16": (np.array([0.5, 2.25, 3.0], np.float16), pyarrow.float16()),
    "float32": ([0.1, 2.25, 3.0], pyarrow.float32()),
    "float64": ([0.1, 2.25, 3.0], pyarrow.float64()),
    "decimal": ([Decimal("0.10"), Decimal("2.25"), Decimal("3.00")], pyarrow.decimal128(9, 2)),
    "dictionary": ([1, 2, 2], None),
    "whole floats": ([1.0, 2.0, 3.0], pyarrow.float32()),
    "beyond 2^53": ([2**53, 2**53 + 1, 2**60 + 1], pyarrow.int64()),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_are_those_of_a_csv_file_as_features_and_as_labels(case, tmp_path):
    values, kind = NUMBERS[case]
    column = pyarrow.array(values) if case == "dictionary" else pyarrow.array(values, kind)
    column = column.dictionary_encode() if case == "dictionary" else column
    own = written(tmp_path, {"x": column, "y": column})
    theirs = csv_of(tmp_path, {"x": values, "y": values})
    assert labels_of(own) == labels_of(theirs)
    assert len({*labels_of(own)}) == len({*map(str, values)})
    x = [features_in(path, read_cells(path), ["x"], texts=False) for path in (own, theirs)]
    np.testing.assert_allclose(x[0], x[1], rtol=1e-7)


def test_numbers_of_few_bits_have_their_digits_at_the_end_of_a_range(tmp_path):
    column = Number(name="x", low=0, high=0.1)
    for kind in (pyarrow.float16(), pyarrow.float32()):
        values = pyarrow.array(np.array([0.1, 0.05, 0.0], kind.to_pandas_dtype()), kind)
        own = read_cells(written(tmp_path, {"x": values}))["x"]
        theirs = read_cells(csv_of(tmp_path, {"x": [0.1, 0.05, 0.0]}))["x"]
        np.testing.assert_array_equal(
            replace(column, outside="clip").encode(own)[0] >= 1.0,
            column.encode(theirs)[0] >= 1.0,
        )
        assert column.encode(own)[1] == 0


def test_truth_values_are_drafted_as_the_categories_of_a_csv_file(tmp_path):
    columns = {"x": [True, False, None] * 4, "y": ["no", "yes"] * 6}
    tables = [read_cells(write(tmp_path, columns)) for write in (written, csv_of)]
    ours, theirs = (draft(table, "y").schema for table in tables)
    assert ours == theirs
    schema = replace(ours, basis="public")
    x = [encode_table(schema, table).x for table in tables]
    np.testing.assert_array_equal(x[0], x[1])


@pytest.mark.parametrize(
    "people",
    [
        [7, 7, 2**53 + 1, 2**53],
        [7.0, 7.0, 8.5, 9.0],
        [Decimal("7.00"), Decimal("7.00"), Decimal("8.00"), Decimal("9.00")],
        ["a", "a ", "b", "A"],
        encoded("007", "7", "b", "A"),
    ],
)
def test_persons_are_those_of_a_csv_file(people, tmp_path):
    rest = {"x": [1, 2, 3, 4], "y": ["no", "yes", "no", "yes"]}
    texts = [each.decode() if isinstance(each, bytes) else each for each in people]
    tables = [
        read_cells(written(tmp_path, {"who": people, **rest})),
        read_cells(csv_of(tmp_path, {"who": texts, **rest})),
    ]
    for table in tables:
        assert encode_table(SCHEMA, table).units.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([2.0**24, 1.0, 2.0], pyarrow.float32()),
        (np.array([2.0**11, 1.0, 2.0], np.float16), pyarrow.float16()),
        ([2.0**53, 1.0, 2.0], pyarrow.float64()),
    ],
)
def test_persons_that_a_float_may_have_rounded_are_an_error(values, kind, tmp_path):
    columns = {"who": pyarrow.array(values, kind), "x": [1, 2, 3], "y": ["no", "yes", "no"]}
    with refused("records", "data", "record 1, column who"):
        encode_table(SCHEMA, read_cells(written(tmp_path, columns)))


TIMES = {
    "a zone": pyarrow.timestamp("us", "Europe/Berlin"),
    "an unknown zone": pyarrow.timestamp("ms", "Mars/Olympus"),
    "an offset": pyarrow.timestamp("ns", "+05:30"),
    "no zone": pyarrow.timestamp("ns"),
    "a date": pyarrow.date32(),
}


@pytest.mark.parametrize("case", TIMES)
def test_times_are_texts_whatever_their_zone(case, tmp_path):
    times = pyarrow.array([NOON, NOON, None], pyarrow.timestamp("us")).cast(TIMES[case])
    columns = {"at": times, "x": [1, 2, 3], "y": ["no", "yes", "no"], "who": [1, 2, 3]}
    path = written(tmp_path, columns)
    first, second, third = read_cells(path)["at"]
    assert first == second
    assert first.startswith("2020-03-01")
    assert third is None
    assert ("Z" in first) == (case not in ("no zone", "a date"))
    assert len(encode_table(SCHEMA, read_cells(path)).x) == 3
    with refused("records", "data", "own.parquet, record 1, column at"):
        load_own([path], 0, columns=Columns(label="y"))
    assert [*draft(read_cells(path), "y", "who").left_out] == ["at"]


OTHERS = {
    "list": [[1.0], [2.0], None],
    "structure": [{"a": 1}, {"a": 2}, None],
    "duration": [datetime.timedelta(1), datetime.timedelta(2), None],
}


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("column", ["x", "y", "who"])
def test_other_types_are_an_error_where_they_are_used_and_nowhere_else(case, column, tmp_path):
    columns = {"x": [1, 2, 3], "y": ["no", "yes", "no"], "who": ["a", "b", "c"]}
    path = written(tmp_path, columns | {column: OTHERS[case]})
    for read in (
        lambda: encode_table(SCHEMA, read_cells(path)),
        lambda: load_own([path], 0, columns=Columns(label=column)),
    ):
        with refused("records", "data") as caught:
            read()
        assert f"record 1, column {column}" in caught.value.value
    unused = written(tmp_path, columns | {"more": OTHERS[case]})
    assert len(encode_table(SCHEMA, read_cells(unused)).x) == 3


def test_a_column_of_no_type_is_missing_everywhere(tmp_path):
    path = written(tmp_path, {"x": pyarrow.nulls(3), "y": ["no", "yes", "no"], "who": [1, 2, 3]})
    with refused("records", "data", "record 1, column x"):
        encode_table(SCHEMA, read_cells(path))
    indicated = replace(SCHEMA, columns=(replace(SCHEMA.columns[0], missing="indicator"),))
    assert np.unique(encode_table(indicated, read_cells(path)).x, axis=0).shape == (1, 2)


@pytest.mark.parametrize("name", ["x", "", " "])
def test_names_of_columns_are_there_and_different(name, tmp_path):
    arrays = [pyarrow.array([1, 2, 3]), pyarrow.array([4, 5, 6]), pyarrow.array(["a", "b", "a"])]
    path = tmp_path / "own.parquet"
    parquet.write_table(pyarrow.Table.from_arrays(arrays, names=["x", name, "y"]), path)
    with refused(
        "records", "data", "own.parquet, column 2, x" if name == "x" else "own.parquet, column 2"
    ):
        load_own([path], 0, columns=Columns(label="y"))


def test_a_folder_named_like_a_column_is_no_column(tmp_path):
    (tmp_path / "year=2020").mkdir()
    path = written(tmp_path / "year=2020", {"x": [1, 2, 3]})
    assert [*read_cells(path)] == ["x"]


def test_the_index_of_a_data_frame_is_not_learnt(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": ["a", "b", "a", "b"]})
    path = tmp_path / "own.parquet"
    frame.to_parquet(path)
    (own,) = load_own([path], 0, columns=Columns(label="y"))
    assert (columns_in(own.recipe), classes_in(own.recipe)) == (("x",), ("a", "b"))
    frame.iloc[[2, 0, 3]].to_parquet(path)
    with refused("records", "data", "own.parquet, column __index_level_0__"):
        load_own([path], 0, columns=Columns(label="y"))
