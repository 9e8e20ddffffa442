"""Drafts of schemas: what they propose, what they leave out and why, and files that they write."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extensions.data.datasets import load_own, read_cells, read_unlabelled, separator_of
from extensions.data.schema import (
    SEPARATORS,
    Category,
    Number,
    Schema,
    Target,
    Unit,
    draft,
    encode_table,
    label_of,
    read_schema,
    to_toml,
)
from extensions.errors import ArgumentError
from tests.helpers.refused import refused
from tests.helpers.strategies import PROPERTY

RECORDS = 60
ANY_TEXT = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]), st.sampled_from(list('\x7f\x85\u2028\n"\\'))
    ),
    max_size=6,
).filter(str.strip)


def cells_of(**columns: Any) -> dict[str, Any]:
    """Returns a table of columns, beside a target and a feature."""
    number = len(next(iter(columns.values())))
    usual = {
        "y": [f"{i % 2}" for i in range(number)],
        "size": [f"{i * 7 % 11}" for i in range(number)],
    }
    return {
        name: np.fromiter(cells, object, number) for name, cells in {**usual, **columns}.items()
    }


def only(**columns: Any) -> Any:
    """Returns the drafted column."""
    (name,) = columns
    drafted = draft(cells_of(**columns), "y")
    assert not drafted.left_out
    return next(each for each in drafted.schema.columns if each.name == name)


def saved(folder: Path, schema: Schema) -> Schema:
    path = folder / "schema.toml"
    path.write_text(to_toml(schema), encoding="utf-8")
    assert Schema.of_facts(json.loads(json.dumps(schema.facts()))) == schema
    return read_schema(path)


LEFT_OUT = {
    "ISO dates": ("seen", [f"2020-0{i % 9 + 1}-1{i % 9}" for i in range(RECORDS)]),
    "times": ("seen", [f"2020-01-01T10:00:{i:02}Z" for i in range(RECORDS)]),
    "German dates": ("seen", [f"{i % 28 + 1}.3.2020" for i in range(RECORDS)]),
    "American dates": ("seen", [f"3/{i % 28 + 1}/20" for i in range(RECORDS)]),
    "dates of digits": ("seen", [f"202003{i % 28 + 1:02}" for i in range(RECORDS)]),
    "months": ("seen", [f"{i % 28 + 1} Mar 2020" for i in range(RECORDS)]),
    "clock": ("seen", [f"{i % 24}:30" for i in range(RECORDS)]),
    "names": ("who", [f"p{i * 7 % RECORDS}" for i in range(RECORDS)]),
    "ten names": ("who", [f"p{i}" for i in range(10)]),
    "free text": ("note", [f"she said {i}" for i in range(RECORDS)]),
    "by its name": ("patient_id", [str(i * 37 % 1000) for i in range(RECORDS)]),
    "by its name, again and again": ("PatientID", [str(i % 30 * 7) for i in range(RECORDS)]),
    "long numbers": ("insurance", [str(1234567890 + i * 7919) for i in range(RECORDS)]),
    "SAS dates": ("seen", [f"{i % 28 + 1:02}FEB1951" for i in range(RECORDS)]),
    "months with a year": ("seen", [f"2020-{i % 12 + 1:02}" for i in range(RECORDS)]),
    "clock of twelve hours": ("seen", [f"{i % 12 + 1}:30 pm" for i in range(RECORDS)]),
    "by its German name": ("Patientennummer", [str(i * 37 % 1000) for i in range(RECORDS)]),
    "postal codes": ("plz", [f"{i * 1777 % 99999:05}" for i in range(RECORDS)]),
    "percent": ("share", [f"{i * 7 % 50} %" for i in range(RECORDS)]),
    "money": ("cost", [f"{i % 9 + 1},{i * 7 % 50 + 100}.50 \u20ac" for i in range(RECORDS)]),
    "thousands": ("cost", [f"{i % 9 + 1},{i * 7 % 50 + 100}" for i in range(RECORDS)]),
    "bounds": ("crp", ["<5" if i % 9 == 0 else str(i * 7 % 50) for i in range(RECORDS)]),
    "one number": ("unit", ["7"] * RECORDS),
    "counted": ("row", [str(i) for i in range(RECORDS)]),
    "index of pandas": ("Unnamed: 0", [str(i * i) for i in range(RECORDS)]),
    "empty": ("note", [""] * RECORDS),
    "one text": ("note", ["a"] * RECORDS),
    "no text": ("list", [object()] * RECORDS),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_nobody_should_learn_from_is_left_out_and_said(case):
    name, cells = LEFT_OUT[case]
    drafted = draft(cells_of(**{name: cells}), "y")
    assert [*drafted.left_out] == [name]
    assert [each.name for each in drafted.schema.columns] == ["size"]
    (line,) = [line for line in drafted.text.splitlines() if line.startswith("# Left out")]
    assert f'"{name}"' in line
    assert drafted.left_out[name] in line
    assert max(map(len, drafted.text.splitlines())) <= 80


KEPT = {
    "few texts": ("land", ["de", "fr", "it", "pl"] * 15),
    "numbers": ("age", [str(20 + i * 7 % 50) for i in range(RECORDS)]),
    "measurements": ("weight", [f"{50 + i / 7:.3f}" for i in range(RECORDS)]),
    "a class by number": ("plan_id", [str(i % 5) for i in range(RECORDS)]),
    "none as text": ("grade", ["none", "mild", "severe"] * 20),
    "codes with zeros": ("ward", [f"{i % 12:02}" for i in range(RECORDS)]),
    "an index that is measured": ("glycemic_index", [str(i * 7 % 50) for i in range(RECORDS)]),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_may_be_learnt_from_is_drafted(case):
    name, cells = KEPT[case]
    assert only(**{name: cells}).name == name


@settings(PROPERTY, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(ANY_TEXT, min_size=2, max_size=6, unique_by=label_of),
    names=st.lists(ANY_TEXT.filter("y".__ne__), min_size=2, max_size=2, unique=True),
)
def test_any_texts_and_names_are_written_and_read_as_they_are(texts, names, tmp_path):
    first, second = names
    table = cells_of(y=texts * 6)
    table = {**table, first: table["y"], second: np.full(len(table["y"]), "a", dtype=object)}
    drafted = draft(table, "y")
    path = tmp_path / "schema.toml"
    path.write_text(drafted.text, encoding="utf-8", newline="")
    assert read_schema(path) == drafted.schema
    assert set(names) <= {*drafted.left_out, *(each.name for each in drafted.schema.columns)}


def test_errors_about_many_columns_or_categories_list_the_first_ones():
    wide = {f"c{i}": ["1", "2"] for i in range(2000)}
    with pytest.raises(ArgumentError) as error:
        draft(cells_of(**wide), "z")
    assert len(str(error.value)) < 300
    column = Category(name="code", categories=tuple(map(str, range(1000))))
    with refused("records", "data", "record 1, column code") as error:
        column.encode(np.array(["x"], dtype=object))
    assert len(str(error.value)) < 300


def test_commas_between_thousands_make_no_decimal_mark():
    table = cells_of(a=["1,250", "2,500"] * 30, b=["4,125", "900"] * 30, dose=["0.5", "1.5"] * 30)
    assert draft(table, "y").schema.decimal == "."
    assert draft({**table, "c": np.array(["1,2", "2,3"] * 30, object)}, "y").schema.decimal == "."
    table = {**table, "dose": np.array(["0,5", "1,25"] * 30, object)}
    drafted = draft(table, "y").schema
    assert (drafted.decimal, drafted.columns[1]) == (",", only(a=["1.25", "2.5"] * 30))


@pytest.mark.parametrize("labels", [["0", "1"] * 29 + ["NA", ""], ["0", "1"] * 29 + ["n.a.", "-"]])
def test_an_unknown_outcome_is_no_class(labels):
    assert draft(cells_of(y=labels), "y").schema.target.classes == ("0", "1")
    numbers = [*map(str, range(58)), *labels[-2:]]
    assert draft(cells_of(y=numbers), "y").schema.target.range == (0.0, 60.0)


def test_columns_can_be_excluded():
    table = cells_of(land=["de", "fr"] * 30, age=[str(i * 7 % 50) for i in range(60)])
    drafted = draft(table, "y", exclude=["land", "size"])
    assert ([each.name for each in drafted.schema.columns], [*drafted.left_out]) == (
        ["age"],
        ["land", "size"],
    )
    for wrong in ("nothing", "y"):
        with pytest.raises(ArgumentError) as error:
            draft(table, "y", exclude=[wrong])
        assert (error.value.argument, error.value.value) == ("exclude", wrong)
    with refused("from", "file", "land: as you say, size: as you say, age: as you say"):
        draft(table, "y", exclude=["land", "size", "age"])


@pytest.mark.parametrize("number", [21, 1000])
def test_many_categories_are_listed(number):
    texts = [f"c{i % number}" for i in range(3 * number)]
    column = only(code=texts)
    assert column == Category(name="code", categories=tuple(sorted({*texts})), outside="clip")


def test_rare_categories_beyond_a_thousand_are_other(tmp_path):
    texts = [f"c{i}" for i in range(1000) for _ in range(3)] + [f"r{i // 2}" for i in range(600)]
    drafted = draft(cells_of(code=texts), "y").schema
    column = drafted.columns[1]
    assert (column.outside, len(column.categories)) == ("other", 1000)
    assert all(each.startswith("c") for each in column.categories)
    assert saved(tmp_path, drafted) == drafted
    x, beyond = column.encode(np.array(["c7", "r7", "new"], dtype=object))
    assert (x.shape, beyond, column.outputs[-1]) == ((3, 1001), 0, "code is other")
    assert x.argmax(axis=1).tolist() == [column.categories.index("c7"), 1000, 1000]


TAILS = np.random.default_rng(0)
SCALES = {
    "prices": (np.exp(TAILS.normal(3, 1.5, 2000)), "log"),
    "Pareto": (TAILS.pareto(1.0, 2000) + 1, "log"),
    "gains, mostly none": (np.where(TAILS.uniform(size=2000) < 0.9, 0, 5000), "log1p"),
    "losses and gains": (TAILS.standard_cauchy(2000) * 10, "log1p"),
    "normal": (TAILS.normal(50, 10, 2000), "linear"),
    "uniform": (TAILS.uniform(0, 1000, 2000), "linear"),
    "exponential": (TAILS.exponential(10, 2000), "linear"),
    "few counts": (TAILS.poisson(0.2, 2000), "linear"),
    "hours, mostly 40": (np.where(TAILS.uniform(size=2000) < 0.8, 40, 25), "linear"),
}


@pytest.mark.parametrize("case", SCALES)
def test_heavy_tails_get_a_logarithmic_scale(case):
    values, scale = SCALES[case]
    column = only(x=[repr(float(each)) for each in values])
    assert column.scale == scale
    numbers, _ = column.encode(np.array([repr(float(each)) for each in values], dtype=object))
    assert np.abs(numbers).max() <= 1 + 1e-12
    assert column.low <= np.quantile(values, 0.02)
    assert column.high >= np.quantile(values, 0.98)


def test_log1p_takes_zero_and_either_sign():
    column = Number(name="x", low=-99, high=999, scale="log1p")
    values = np.array(["-99", "-9", "0", "9", "999"], dtype=object)
    ends = -math.log(100), math.log(1000)
    middle, half = sum(ends) / 2, (ends[1] - ends[0]) / 2
    expected = [
        (each - middle) / half for each in (ends[0], -math.log(10), 0.0, math.log(10), ends[1])
    ]
    np.testing.assert_allclose(column.encode(values)[0][:, 0], expected, atol=1e-12)
    with refused("columns.x.range", "range", [0, 999]):
        Number(name="x", low=0, high=999, scale="log")


def test_missing_values_are_drafted_where_numbers_have_them_and_read_as_listed(tmp_path):
    column = only(age=["41", "NA", "30", "n/a", ""] * 12)
    assert (column.missing, column.missing_values) == ("indicator", ("NA", "n/a"))
    column = replace(column, missing_values=("NA", "-999"), low=0, high=100)
    x, beyond = column.encode(np.array(["NA", "-999", "-999.0", "", "50"], dtype=object))
    assert (x[:, 1].tolist(), beyond) == ([1, 1, 1, 1, 0], 0)
    schema = Schema(target=Target(column="y", classes=("a", "b")), columns=(column,))
    assert saved(tmp_path, schema) == schema
    with refused("records", "data", "record 1, column age"):
        replace(column, missing_values=()).encode(np.array(["NA"], dtype=object))
    refusing = replace(column, missing="refuse")
    with refused("records", "data", "record 2, column age"):
        refusing.encode(np.array(["50", "-999"], dtype=object))
    countries = Category(name="land", categories=("NA", "DE"), missing="indicator")
    assert countries.encode(np.array(["NA", ""], dtype=object))[0][:, 2].tolist() == [0, 1]


def rows_of(mark: str) -> list[list[str]]:
    """Returns a table of persons with decimals, of whom some are written in two ways."""
    numbers = [(i * 7 % 50) / 4 for i in range(RECORDS)]
    rows = [
        [f"{i % 20}{'.0' * (i % 3 == 0)}", f"{number}", f"1.{i % 3}0", "NY"[i % 2] * 2]
        for i, number in enumerate(numbers)
    ]
    return [[cell.replace(".", mark) for cell in row[:2]] + row[2:] for row in rows]


def written(folder: Path, separator: str, mark: str) -> Path:
    path = folder / f"own{SEPARATORS.index(separator)}{mark == ','}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerows([["person", "dose", "version", "ill"], *rows_of(mark)])
    return path


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("mark", [".", ","])
def test_separator_and_decimal_mark_are_drafted_and_used_everywhere(separator, mark, tmp_path):
    path = written(tmp_path, separator, mark)
    drafted = draft(
        read_cells(path, separator_of(path)), "ill", "person", separator=separator_of(path)
    )
    schema = replace(saved(tmp_path, drafted.schema), basis="public")
    assert (schema.separator, schema.decimal) == (separator, mark)
    assert isinstance(schema.columns[0], Number)
    usual = draft(read_cells(written(tmp_path, ",", ".")), "ill", "person").schema
    assert (schema.columns[0], schema.target) == (usual.columns[0], usual.target)
    (own,) = load_own([path], 0, schema=schema)
    plain = replace(schema, separator=",", decimal=".", columns=(schema.columns[0],))
    (theirs,) = load_own([written(tmp_path, ",", ".")], 0, schema=plain)
    np.testing.assert_array_equal(own.train_units, theirs.train_units)
    np.testing.assert_array_equal(own.train_y, theirs.train_y)
    (alone,) = load_own([path], 0, schema=replace(schema, columns=plain.columns))
    np.testing.assert_array_equal(alone.train_x, theirs.train_x)
    found, _ = read_unlabelled(path, columns=(), text=None, schema=schema)
    assert found.x.shape[0] == RECORDS


def test_codes_with_a_point_are_texts_where_the_decimal_mark_is_a_comma(tmp_path):
    path = written(tmp_path, ";", ",")
    table = read_cells(path, ";")
    schema = saved(tmp_path, draft(table, "ill", "person", separator=";").schema)
    assert schema.columns[1].categories == ("1.00", "1.10", "1.20")
    x, beyond = schema.columns[1].encode(table["version"], schema.decimal)
    assert (np.unique(x, axis=0).shape[0], beyond) == (3, 0)
    with refused("records", "data", "record 1, column dose"):
        Number(name="dose", low=0, high=9).encode(np.array(["1.000"], dtype=object), ",")


def test_another_decimal_mark_is_named(tmp_path):
    schema = Schema(
        basis="public",
        separator=";",
        target=Target(column="ill", classes=("NN", "YY")),
        columns=(Number(name="dose", low=0, high=13),),
        unit=Unit(column="person"),
    )
    with refused("records", "data", "own1True.csv, record 1, column dose"):
        load_own([written(tmp_path, ";", ",")], 0, schema=schema)
    with refused("records", "data", "own1False.csv, record 1, column dose"):
        load_own([written(tmp_path, ";", ".")], 0, schema=replace(schema, decimal=","))


@pytest.mark.parametrize("wrong", [{"separator": ":"}, {"separator": ""}, {"decimal": "'"}])
def test_unknown_marks_are_an_error(wrong, tmp_path):
    (name,) = wrong
    path = tmp_path / "schema.toml"
    rest = '[target]\ncolumn = "y"\nclasses = ["a", "b"]\n[columns.x]\nrange = [0, 1]'
    path.write_text(f'{name} = "{wrong[name]}"\n{rest}')
    with pytest.raises(ArgumentError) as error:
        read_schema(path)
    assert error.value.argument == name


def test_records_of_persons_who_are_not_told_apart_are_an_error(tmp_path):
    schema = Schema(
        basis="public",
        separator=";",
        decimal=",",
        target=Target(column="y", classes=("a", "b")),
        columns=(Number(name="x", low=0, high=9),),
        unit=Unit(column="who"),
    )
    for name in ("1,10101E+17", "NA", "none", "?"):
        table = {"who": [name, "b"], "x": ["1", "2"], "y": ["a", "b"]}
        with refused("records", "data", "record 1, column who") as error:
            encode_table(schema, {key: np.array(cells, object) for key, cells in table.items()})
        assert name not in str(error.value.value)
