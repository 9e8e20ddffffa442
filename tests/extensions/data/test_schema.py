"""A public schema says what a table becomes: by names, by itself alone, and one way only."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import Columns, Split, load_own, read_cells
from extensions.data.schema import (
    Category,
    Number,
    Schema,
    Target,
    Unit,
    draft,
    encode_table,
    label_of,
    number_of,
    read_schema,
    to_toml,
)
from extensions.data.schema.draft import rounded_outward
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions
from tests.helpers import seated
from tests.helpers.refused import refused

AGE = Number(name="age", low=0.0, high=100.0)
LAND = Category(name="land", categories=("de", "fr", "it"), missing="indicator", outside="clip")
DOSE = Number(name="dose", low=1.0, high=100.0, scale="log", outside="clip", missing="indicator")
SCHEMA = Schema(
    basis="public",
    target=Target(column="ill", classes=("no", "yes")),
    columns=(AGE, LAND, DOSE),
    unit=Unit(column="who", rows=2),
)
REGRESSION = replace(SCHEMA, target=Target(column="cost", range=(0.0, 200.0)), unit=None)
TEXT = """who,age,land,dose,ill
a,50,de,10,yes
b,100,,1,no
a,0,pl,,no
c,25,it,1000,yes
"""


def table(folder: Path, text: str = TEXT, name: str = "own.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def written(folder: Path, schema: Schema = SCHEMA) -> Path:
    return table(folder, to_toml(schema), "schema.toml")


def test_each_value_becomes_what_the_schema_alone_says(tmp_path):
    z = np.hstack(
        [column.encode(read_cells(table(tmp_path))[column.name])[0] for column in SCHEMA.columns]
    )
    assert SCHEMA.features == (
        *("age", "land=de", "land=fr", "land=it", "land is missing", "dose", "dose is missing"),
    )
    third = 1 / 3
    np.testing.assert_allclose(
        z,
        [
            [0.0, 1 - third, -third, -third, 0.0, 0.0, 0.0],
            [1.0, 0.0, 0.0, 0.0, 1.0, -1.0, 0.0],
            [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
            [-0.5, -third, -third, 1 - third, 0.0, 1.0, 0.0],
        ],
        atol=1e-12,
    )


def test_rows_lie_within_norm_1_and_depend_on_no_other_record(tmp_path):
    cells = read_cells(table(tmp_path))
    whole = encode_table(SCHEMA, cells)
    assert np.linalg.norm(whole.x, axis=1).max() < 1.0
    assert (whole.y.tolist(), whole.units.tolist()) == ([1, 0, 0, 1], [0, 1, 0, 2])
    assert whole.clipped == {"land": 1, "dose": 1}
    for row in range(4):
        alone = encode_table(
            SCHEMA, {name: column[row : row + 1] for name, column in cells.items()}
        )
        np.testing.assert_array_equal(alone.x, whole.x[row : row + 1])


def test_columns_are_found_by_name_in_any_order(tmp_path):
    cells = read_cells(table(tmp_path))
    turned = {name: cells[name] for name in reversed(cells)} | {"note": cells["who"]}
    np.testing.assert_array_equal(encode_table(SCHEMA, turned).x, encode_table(SCHEMA, cells).x)
    del turned["land"]
    with refused("records", "data", "columns age, dose, ill, note, who"):
        encode_table(SCHEMA, turned)


def test_tables_without_a_schema_are_matched_by_name_too(tmp_path):
    first = table(tmp_path, "a,b,y\n1,10,0\n2,20,1\n3,30,0\n4,40,1\n5,50,1\n", "first.csv")
    second = table(tmp_path, "b,y,a\n10,0.0,1\n20,1.0,2\n30,0,3\n40,1,4\n50,1,5\n", "second.csv")
    ours, theirs = load_own([first, second], 3, columns=Columns(label="y"))
    assert ours.recipe == theirs.recipe == {
        "column 1": "a", "column 2": "b", "class 0": "0", "class 1": "1",
    }  # fmt: skip
    for name, value in vars(ours).items():
        np.testing.assert_array_equal(value, getattr(theirs, name))
    other = table(tmp_path, "a,c,y\n1,10,0\n2,20,1\n3,30,0\n", "other.csv")
    with refused("records", "data", "other.csv, which lacks column b"):
        load_own([first, other], 3, columns=Columns(label="y"))


@pytest.mark.parametrize("values", ["0.5,1.5,2.5", ",".join(map(str, range(101)))])
def test_measurements_are_no_classes(values, tmp_path):
    path = table(tmp_path, "x,y\n" + "".join(f"1,{y}\n" for y in values.split(",")))
    many = len(values.split(","))
    with refused("label", "value", f"a column of {many} different numbers") as error:
        load_own([path], 0, columns=Columns(label="y"))
    assert "0.5" not in str(error.value)


@pytest.mark.parametrize(
    ("values", "label"),
    [(["0", "0.0", "00", 0, 0.0, " 0 ", "-0"], "0"), (["0.50", 0.5, "+.5"], "0.5")],
)
def test_equal_numbers_are_one_class(values, label):
    assert {label_of(value) for value in values} == {label}


def test_whole_numbers_are_one_class_only_if_all_their_digits_are_equal():
    assert label_of("110101199003070011") == "110101199003070011"
    assert label_of(110101199003070020) == "110101199003070020"
    assert label_of("0110101199003070011.0") == "110101199003070011"
    assert label_of(1e17) == label_of(10**17) != label_of("1e17")
    assert label_of("0.1000000000000000055") != label_of("0.1")


def test_texts_are_no_numbers():
    texts = ["nan", "inf", "x1", "1_0x", "1_1", "1e1", "0x1F", "\u0661\u0660", "1,5", "1.2.3"]
    assert [label_of(text) for text in texts] == texts
    assert [text for text in texts if not math.isnan(number_of(text))] == ["1e1"]


def units_of(*identifiers: object) -> list[int]:
    """Returns the persons' numbers in a table of one record for each identifier."""
    cells = np.fromiter(identifiers, dtype=object)
    rest = {"age": 50, "land": "de", "dose": 10, "ill": "yes"}
    columns = {name: np.full(len(cells), value, dtype=object) for name, value in rest.items()}
    units = encode_table(SCHEMA, {"who": cells, **columns}).units
    assert units is not None
    return units.tolist()


@pytest.mark.parametrize(
    "identifiers",
    [
        ("110101199003070011", "110101199003070020", "110101199003070038"),
        (110101199003070011, 110101199003070020, 2**53, 2**53 + 1),
        ("9" * 400, "9" * 399 + "8"),
        ("1e3", "1000", "1_000", "0x3e8", "\u0661\u0660\u0660\u0660"),
        ("7", "-7", "7.5", "7.50", "70", "a7", "A7", "07a"),
        ("1.10101e17", "1.10102e17"),
    ],
)
def test_different_identifiers_are_different_persons(identifiers):
    assert units_of(*identifiers) == list(range(len(identifiers)))


@pytest.mark.parametrize(
    "identifiers",
    [
        (7, "7", 7.0, "007", " 7 ", "7.0", "+7", "7."),
        (0, "00", "-0", "0.0"),
        ("110101199003070011", 110101199003070011, "0110101199003070011.0"),
        ("patient a", " patient a\t"),
    ],
)
def test_a_person_is_one_however_its_identifier_is_written(identifiers):
    assert [units_of(identifiers[0], each) for each in identifiers] == [[0, 0]] * len(identifiers)


@pytest.mark.parametrize("value", [2.0**53, -1.1e17, "1.10101E+17", " 1e+17", "2.E+05"])
def test_an_identifier_that_was_rounded_is_refused(value):
    with refused("records", "data", "record 2, column who") as error:
        units_of("a", value)
    assert "17" not in str(error.value)


def test_who_is_left_out_takes_her_own_rows_away_and_nobody_elses(tmp_path):
    schema = replace(SCHEMA, unit=Unit(column="who", rows=1))
    head, *rows = TEXT.splitlines(keepends=True)
    rows = [
        f"11010119900307{at:04}{row[1:]}" for at, row in zip((11, 20, 38, 46), rows, strict=True)
    ]
    whole = encode_table(schema, read_cells(table(tmp_path, head + "".join(rows))))
    without = encode_table(schema, read_cells(table(tmp_path, head + "".join(rows[1:]))))
    assert (whole.units.tolist(), whole.left_out) == ([0, 1, 2, 3], 0)
    np.testing.assert_array_equal(without.x, whole.x[1:])
    np.testing.assert_array_equal(without.y, whole.y[1:])


BAD_VALUES = {
    "beyond": ("a,50,de,10,yes", "a,101,de,10,yes", "record 1, column age"),
    "word": ("a,50,de", "a,fifty,de", "record 1, column age"),
    "infinite": ("a,50,de", "a,inf,de", "record 1, column age"),
    "missing": ("c,25,it", "c, ,it", "record 4, column age"),
    "spelled": ("c,25,it", "c,NA,it", "record 4, column age"),
    "class": ("1,no", "1,maybe", "record 2, column ill"),
    "no class": ("1,no", "1,", "record 2, column ill"),
    "nobody": ("b,100", ",100", "record 2, column who"),
    "spelled nobody": ("b,100", "N/A,100", "record 2, column who"),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_what_the_schema_refuses_is_named_without_its_value(case, tmp_path):
    old, new, place = BAD_VALUES[case]
    cells = read_cells(table(tmp_path, TEXT.replace(old, new)))
    with refused("records", "data", place) as error:
        encode_table(SCHEMA, cells)
    assert place in error.value.value
    assert not re.search("101|fifty|inf|maybe", str(error.value))


def test_categories_outside_are_refused_where_the_schema_says_so(tmp_path):
    strict = replace(SCHEMA, columns=(AGE, replace(LAND, outside="refuse"), DOSE))
    with refused("records", "data", "record 3, column land"):
        encode_table(strict, read_cells(table(tmp_path)))


def test_targets_of_a_regression_become_parts_of_their_range(tmp_path):
    text = TEXT.replace("ill", "cost").replace("yes", "50").replace(",no", ",200")
    cells = read_cells(table(tmp_path, text))
    encoded = encode_table(REGRESSION, cells)
    assert encoded.y.tolist() == [0.25, 1.0, 1.0, 0.25]
    assert encoded.units is None
    narrow = replace(REGRESSION, target=Target(column="cost", range=(0.0, 100.0)))
    with refused("records", "data", "record 2, column cost"):
        encode_table(narrow, cells)
    clipped = replace(narrow, target=replace(narrow.target, outside="clip"))
    encoded = encode_table(clipped, cells)
    assert (encoded.y.tolist(), encoded.clipped["cost"]) == ([0.5, 1.0, 1.0, 0.5], 2)


WEIGHTED = replace(SCHEMA, target=replace(SCHEMA.target, weights=(0.1, 1.0)))


@pytest.mark.parametrize("schema", [SCHEMA, REGRESSION, WEIGHTED])
def test_a_schema_is_written_and_read_as_it_is(schema, tmp_path):
    assert read_schema(written(tmp_path, schema)) == schema
    assert Schema.of_facts(json.loads(json.dumps(schema.facts()))) == schema


def changed() -> dict[str, Schema]:
    """Returns schemas that differ from `SCHEMA` in one thing each: all fields of all its parts."""
    new = {
        "name": "other", "low": -1.0, "high": 99.0, "scale": "log", "outside": "clip",
        "missing": "indicator", "missing_values": ("NA",),
    }  # fmt: skip
    age = {
        field.name: replace(AGE, **{field.name: new[field.name]})
        for field in fields(AGE)
        if field.name != "scale"
    }
    age["scale"] = replace(AGE, low=1.0, scale="log")
    land = {"categories": ("de", "it", "fr"), "outside": "refuse", "missing": "refuse", "name": "x"}
    land["missing_values"] = ("-1",)
    assert set(land) == {field.name for field in fields(LAND)}
    target = {"column": "sick", "classes": ("yes", "no"), "weights": (0.5, 1.0)}
    unit = {"column": "whom", "rows": 3}
    return (
        {f"age {key}": replace(SCHEMA, columns=(each, LAND, DOSE)) for key, each in age.items()}
        | {
            f"land {key}": replace(SCHEMA, columns=(AGE, replace(LAND, **{key: value}), DOSE))
            for key, value in land.items()
        }
        | {
            f"target {key}": replace(SCHEMA, target=replace(SCHEMA.target, **{key: value}))
            for key, value in target.items()
        }
        | {
            f"unit {key}": replace(SCHEMA, unit=replace(SCHEMA.unit, **{key: value}))
            for key, value in unit.items()
        }
        | {
            "order": replace(SCHEMA, columns=(LAND, AGE, DOSE)),
            "no unit": replace(SCHEMA, unit=None),
            "task": REGRESSION,
            "basis": replace(SCHEMA, basis="data"),
            "separator": replace(SCHEMA, separator=";"),
            "decimal": replace(SCHEMA, decimal=","),
            "clipped target": replace(
                REGRESSION, target=replace(REGRESSION.target, outside="clip")
            ),
            "range": replace(REGRESSION, target=Target(column="cost", range=(0.0, 201.0))),
        }
    )


def test_whatever_differs_in_two_schemas_shows_in_their_facts():
    schemas = [SCHEMA, *changed().values()]
    facts = {json.dumps(schema.facts(), sort_keys=True) for schema in schemas}
    assert len(facts) == len(schemas)
    for name, schema in changed().items():
        assert schema.facts() != SCHEMA.facts(), name


def test_a_draft_is_refused_until_somebody_says_where_it_comes_from(tmp_path):
    cells = read_cells(table(tmp_path))
    text = draft(cells, "ill", "who").text
    assert text.count("# confirm") == 5
    path = table(tmp_path, text, "schema.toml")
    unread = read_schema(path)
    with refused("basis", "choice", value="draft"):
        encode_table(unread, cells)
    for basis in ("public", "data"):
        path.write_text(text.replace('basis = "draft"', f'basis = "{basis}"'))
        encoded = encode_table(read_schema(path), cells)
        assert (len(encoded.x), encoded.left_out) == (3, 1)
    without = table(tmp_path, text.replace('basis = "draft"\n', ""), "schema.toml")
    with refused("basis", "choice", value="draft"):
        read_schema(without).check_confirmed()


def test_a_draft_guesses_and_rounds(tmp_path):
    rows = "".join(f"p{i},{i * i % 50},{i / 7:.4f},{'ab'[i % 2]},{i % 3}.0\n" for i in range(50))
    cells = read_cells(table(tmp_path, "who,n,cost,kind,y\n" + rows))
    path = tmp_path / "schema.toml"
    path.write_text(draft(cells, "y", "who").text)
    schema = read_schema(path)
    assert schema.target.classes == ("0", "1", "2")
    assert schema.unit == Unit(column="who")
    assert schema.columns[0] == Number(name="n", low=0.0, high=50.0, outside="clip")
    assert schema.columns[2].categories == ("a", "b")
    path.write_text(draft(cells, "cost", "who").text)
    assert read_schema(path).target == Target(column="cost", range=(0.0, 7.0), outside="clip")
    assert [*draft(cells, "y").left_out] == ["who"]
    with refused("target", "choice", value="z"):
        draft(cells, "z")


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((3, 97), (0, 100)),
        ((0.012, 0.093), (0.01, 0.095)),
        ((5, 5), (4, 6)),
        ((-3.2, 0), (-3.5, 0)),
    ],
)
def test_ranges_are_rounded_outward(ends, expected):
    low, high = rounded_outward(*ends)
    assert low <= ends[0] <= ends[1] <= high
    if ends[0] != ends[1]:
        assert (low, high) == expected


NEITHER = ("target.classes, target.range", "either", ([], None))
BAD_SCHEMAS = {
    "no TOML": ("basis =", "basis", "schema", "file", "schema.toml"),
    "unknown key": ("basis", "bases", "schema", "choice", "bases"),
    "basis": ('"public"', '"guess"', "basis", "choice", "guess"),
    "task": ('"classification"', '"regression"', "target.task", "value", "regression"),
    "one class": ('["no", "yes"]', '["no"]', "target.classes", "value", ["no"]),
    "one class twice": ('["no", "yes"]', '["1", "1.0"]', "target.classes", "value", ["1", "1"]),
    "weights": ("[target]", "[target]\nweights = [1.0]", "target.weights", "shape", [1.0]),
    "no weight": ("[target]", "[target]\nweights = [0, 1]", "target.weights", "range", (0.0, 1.0)),
    "no classes": ('classes = ["no", "yes"]', "", *NEITHER),
    "reversed range": ("[0.0, 100.0]", "[100, 0]", "columns.age.range", "range", [100.0, 0.0]),
    "three ends": ("[0.0, 100.0]", "[0, 1, 2]", "columns.age.range", "type", [0, 1, 2]),
    "word in a range": ("[0.0, 100.0]", '[0, "x"]', "columns.age.range", "type", [0, "x"]),
    "log of 0": ("[1.0, 100.0]", "[0, 100]", "columns.dose.range", "range", [0.0, 100.0]),
    "scale": ('"log"', '"cubic"', "columns.dose.scale", "choice", "cubic"),
    "missing": ('missing = "refuse"', 'missing = "zero"', "columns.age.missing", "choice", "zero"),
    "outside": ('outside = "refuse"', 'outside = "wrap"', "columns.age.outside", "choice", "wrap"),
    "column key": ("scale =", "scales =", "columns.dose", "choice", "scales"),
    "nothing known": ("range = [0.0, 100.0]", "", "columns.age", "value", ["missing", "outside"]),
    "target as column": ('column = "ill"', 'column = "age"', "columns", "value", "age"),
    "rows": ("rows = 2", "rows = 0", "unit.rows", "range", 0),
    "half rows": ("rows = 2", "rows = 1.5", "unit.rows", "range", 1.5),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_a_bad_schema_is_refused_by_name(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old, new, *expected = BAD_SCHEMAS[case]
    text = to_toml(SCHEMA)
    assert old in text
    with refused(*expected):
        read_schema(table(Path(), text.replace(old, new, 1), "schema.toml"))


def test_parties_whose_tables_differ_refuse_by_name_before_anything_is_shared():
    ours = {"column 1": "age", "column 2": "dose", "class 0": "no", "class 1": "yes"}
    assert refusals([ours, ours]) == ["shared", "shared"]
    others = {
        "column 2": ours | {"column 2": "land"},
        "column 3": ours | {"column 3": "land"},
        "class 0": ours | {"class 0": "yes", "class 1": "no"},
    }
    for name, facts in others.items():
        (message,) = set(refusals([ours, facts]))
        assert re.match(f"{name} = .* at party 0, .* at party 1", message), message
    for name, schema in changed().items():
        (message,) = set(refusals([SCHEMA.facts(), schema.facts()]))
        assert re.match("schema .* = .* at party 0, .* at party 1", message), name


def refusals(facts: Sequence[dict[str, Any]]) -> list[str]:
    """Returns what each of several parties with these facts about their records says."""
    x, y = np.zeros((3, 2)), np.array([0, 1, 1])
    own = Split(train_x=x, train_y=y, test_x=x, test_y=y)
    configs = [TrainConfig(backend="clear", private=False, classes=2, facts=each) for each in facts]
    return seated.refusals([(config, RunOptions(), own) for config in configs])
