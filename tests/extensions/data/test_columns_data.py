"""Owners' files with different columns of the same persons: who has what, and who is held out."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import (
    Columns,
    classes_in,
    columns_in,
    common_facts,
    has_labels,
    load_own,
    write_private,
)
from extensions.data.datasets.by_columns import load_columns
from extensions.data.datasets.records import ORDER
from extensions.data.origin import Origin, own_records
from extensions.data.schema import Number, Schema, Target, to_toml
from tests.helpers.refused import refused

NUMBERS = np.arange(60.0).reshape(20, 3)
KINDS = ["left", "right"] * 10
SCHEMA = Schema(
    target=Target(column="side", classes=("left", "right")),
    columns=tuple(Number(name=f"c{i}", low=0, high=60) for i in range(3)),
    basis="public",
)


def written(path: Any, *places: int, labels: bool = False, rows: int = 20) -> Any:
    names = [f"c{i}" for i in places] + ["side"] * labels
    lines = [[*map(str, NUMBERS[row, [*places]]), *[KINDS[row]] * labels] for row in range(rows)]
    path.write_text("\n".join(map(",".join, [names, *lines])) + "\n")
    return path


@pytest.fixture
def files(tmp_path) -> list[Any]:
    return [written(tmp_path / "a.csv", 0, 2), written(tmp_path / "b.csv", 1, labels=True)]


def test_each_owner_has_its_columns_of_the_same_persons_and_one_the_labels(files, tmp_path):
    parts = load_columns(files, 3, schema=SCHEMA)
    assert [columns_in(part.recipe) for part in parts] == [("c0", "c2"), ("c1",)]
    assert [has_labels(part.train_y) for part in parts] == [False, True]
    assert {len(part.train_x) for part in parts} == {16}
    assert {len(part.test_x) for part in parts} == {4}
    for part, places in zip(parts, ([0, 2], [1]), strict=True):
        own = replace(SCHEMA, columns=tuple(SCHEMA.columns[i] for i in places))
        alone = load_own([written(tmp_path / "c.csv", *places, labels=True)], 3, schema=own)[0]
        np.testing.assert_array_equal(part.train_x, alone.train_x)
        np.testing.assert_array_equal(part.test_x, alone.test_x)
        assert common_facts(part.recipe) == {
            k: SCHEMA.facts()[k] for k in ("schema target", "schema unit")
        }
    np.testing.assert_array_equal(parts[1].train_y, alone.train_y)
    one = load_columns(files[:1], 3, schema=replace(SCHEMA, columns=SCHEMA.columns[::2]))
    np.testing.assert_array_equal(one[0].train_x, parts[0].train_x)


def test_tables_without_a_schema_and_arrays_go_together(files, tmp_path):
    table = load_columns(files, 3, columns=Columns(label="side"))
    assert classes_in(table[1].recipe) == ("left", "right")
    assert [part.classes for part in table] == [2, 2]
    arrays = {"train_x": NUMBERS[:16], "test_x": NUMBERS[16:]}
    none = write_private(tmp_path / "none.npz", **arrays)
    some = write_private(
        tmp_path / "some.npz", **arrays, train_y=np.arange(16) % 3, test_y=np.zeros(4, np.int64)
    )
    found = load_columns([none, some], 3)
    assert [(part.classes, has_labels(part.train_y)) for part in found] == [(3, False), (3, True)]
    np.testing.assert_array_equal(found[0].train_x, found[1].train_x)
    alone = own_records(none, Origin(), 3, by_columns=True)
    assert (alone.classes, has_labels(alone.train_y)) == (3, False)


def aligned(folder, rows=20, order="a" * 64):
    """What `pea align` writes beside the records in a folder."""
    found = {"rows": rows, "order": order, "members": ["a", "b"], "sizes": [30, 40], "owner": "a"}
    path = folder / "alignment.json"
    path.write_text(json.dumps({"format": 1, **found}))
    return path


@pytest.mark.parametrize(
    ("change", "argument", "value"),
    [
        ("rows", "records", [20, 19]),
        ("order", "order", ["a" * 64, "b" * 64]),
        ("no labels", "records", "column side, in no file"),
        ("two with labels", "records", "column side, in a.csv, b.csv"),
        ("a column twice", "records", "column c1, in a.csv, b.csv"),
        ("a column missing", "records", "column c2, in no file"),
    ],
)
def test_files_that_do_not_go_together_are_refused(change, argument, value, files, tmp_path):
    match change:
        case "rows":
            written(files[1], 1, labels=True, rows=19)
        case "order":
            for name, path in zip("ab", files, strict=True):
                (tmp_path / name).mkdir()
                aligned(tmp_path / name, order=name * 64)
                files[files.index(path)] = path.rename(tmp_path / name / path.name)
        case "no labels":
            written(files[1], 1)
        case "two with labels":
            written(files[0], 0, 2, labels=True)
        case "a column twice":
            written(files[0], 0, 1, 2)
        case "a column missing":
            written(files[0], 0)
    with refused(argument, "data", value):
        load_columns(files, 3, schema=SCHEMA)


def test_an_alignment_is_stated_and_one_that_is_none_is_refused(files, tmp_path):
    beside = aligned(tmp_path)
    parts = load_columns(files, 3, schema=SCHEMA)
    orders = {part.recipe[ORDER] for part in parts}
    assert orders == {"a" * 64} == {common_facts(parts[0].recipe)[ORDER]}
    aligned(tmp_path, rows=19)
    with refused("records", "data", "a.csv: 20 records"):
        load_columns(files, 3, schema=SCHEMA)
    beside.write_text("[]")
    with refused("alignment", "file", str(beside)):
        load_columns(files, 3, schema=SCHEMA)


@pytest.mark.parametrize("by_schema", [True, False])
def test_one_table_is_cut_by_columns(by_schema, tmp_path):
    path, schema = written(tmp_path / "all.csv", 0, 1, 2, labels=True), tmp_path / "s.toml"
    schema.write_text(to_toml(SCHEMA))
    how = {"schema": schema} if by_schema else {"columns": Columns(label="side")}
    parts = Origin(data=f"csv:{path}", **how).read(2, by_columns=True)
    assert [columns_in(part.recipe) for part in parts] == [("c0",), ("c1", "c2")]
    assert [has_labels(part.train_y) for part in parts] == [True, False]
    with refused("parties", "range", 4):
        Origin(data=f"csv:{path}", **how).read(4, by_columns=True)


def test_images_are_cut_into_strips():
    first, second = Origin(data="digits").read(2, by_columns=True)
    assert first.train_x.shape == second.train_x.shape == (1438, 4, 8)
