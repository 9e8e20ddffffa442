"""CSV files: each line is read as it stands, or the error has its place; nothing is guessed."""

import csv
import io
import json
import re
import string
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from extensions.data.datasets import Columns, load_own, read_cells, separator_of
from extensions.data.datasets.tables import class_names, features_in, labels_in
from extensions.data.schema import SEPARATORS, Category, label_of, number_of
from extensions.data.schema.cells import numbers_of
from extensions.errors import ArgumentError
from tests.helpers.refused import refused
from tests.helpers.strategies import PROPERTY

QUICK = settings(
    PROPERTY, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def written(folder: Path, content: bytes | str, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def place_of(error: ArgumentError) -> tuple[int, int]:
    """Returns the line and the character that an error names, beside the file."""
    assert error.argument == "records"
    found = re.fullmatch(r"own\.csv, line (\d+), column (\d+)", str(error.value))
    assert found is not None, error
    return int(found[1]), int(found[2])


MALFORMED = {
    "stray mark": ('a,b\nx"y,2\n3,4\n', (2, 2)),
    "mark in the middle of the last cell": ('a,b\n1,2\n3,4"\n', (3, 4)),
    "never closed": ('a,b\n1,2\n"3,4\n5,6\n', (3, 1)),
    "never closed in the last cell": ('a,b\n1,"2\n', (2, 3)),
    "never closed in the header": ('a,"b\n1,2\n', (1, 3)),
    "text behind the second mark": ('a,b\n1,"x" y\n3,4\n', (2, 3)),
    "space before the first mark": ('a,b\n1, "x"\n3,4\n', (2, 4)),
    "backslash before a mark": ('a,b\n1,"x \\"y\\" z"\n3,4\n', (2, 3)),
    "two marks far apart": ('a,b\n"1,2\n3,4\n5,6\n"7,8\n', (2, 1)),
    "behind a line break in a cell": ('a,b\n"x\ny",2\n3\n', (4, 1)),
    "behind line breaks of another kind": ('a,b\r\n"x\ny\n\nz",2\r\n3\r\n', (6, 1)),
    "few cells": ("a,b\n1,2\n3\n", (3, 1)),
    "many cells": ("a,b\n1,2,3\n3,4\n", (2, 1)),
    "few names": ("a\n1,2\n3,4\n", (2, 1)),
    "blank line": ("a,b\n1,2\n\n3,4\n", (3, 1)),
    "blank line at the end": ("a,b\n1,2\n\n", (3, 1)),
    "NUL": ("a,b\n1,2\n3\0,4\n", (3, 2)),
    "NUL in quotes": ('a,b\n1,2\n"3\0",4\n', (3, 3)),
    "latin-1": ("a,b\n1,2\n3,\xe4\n".encode("latin-1"), (3, 3)),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), (1, 1)),
    "CRLF, then LF": ("a,b\r\n1,2\n3,4\r\n", (2, 4)),
    "LF, then CRLF": ("a,b\n1,2\r\n3,4\n", (2, 4)),
    "LF, then CR": ("a,b\n1,2\r3,4\n", (2, 4)),
    "CR, then LF": ("a,b\r1,2\r3,4\n", (3, 4)),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_not_well_formed_is_an_error_with_its_place(case, tmp_path):
    content, place = MALFORMED[case]
    with pytest.raises(ArgumentError) as error:
        read_cells(written(tmp_path, content))
    assert place_of(error.value) == place


NOTES = [f"note {i},{i % 2}" for i in range(40)]


@pytest.mark.parametrize("first", [0, 7])
@pytest.mark.parametrize("last", [8, 39])
@pytest.mark.parametrize(
    ("opened", "closed"),
    [('"{}', '"{}'), ('"{}', '{}"'), ('"{}', '{}",{}'), ("{}", '{}"'), ('{},"{}', '{},{}"')],
)
def test_no_pair_of_stray_marks_swallows_rows(first, last, opened, closed, tmp_path):
    lines = list(NOTES)
    for place, form in ((first, opened), (last, closed)):
        note, label = lines[place].split(",")
        parts = form.count("{}")
        lines[place] = form.format(note, label) if parts == 2 else f"{form.format(note)},{label}"
    path = written(tmp_path, "text,label\n" + "\n".join(lines) + "\n")
    with pytest.raises(ArgumentError) as error:
        load_own([path], 0, columns=Columns(label="label", text="text"))
    assert first + 2 <= place_of(error.value)[0] <= last + 2
    assert "note" not in str(error.value)


@pytest.mark.parametrize(
    "rows",
    [
        ['1,"Doe, J","ill,0', '2,"Roe, K",well",1', '3,Poe,"well, ""really""",1'],
        ['1,Doe,"ill,0', "2,Roe,ill,1", '3,Poe,well",1', "4,Zoe,well,0"],
        ['1,Doe,"ill,0', '2,Roe,well",1'],
    ],
)
def test_rows_with_other_quoted_cells_are_not_swallowed_either(rows, tmp_path):
    path = written(tmp_path, "\n".join(["id,name,note,label", *rows]))
    with pytest.raises(ArgumentError) as error:
        read_cells(path)
    assert place_of(error.value)[0] == 2


def test_cells_of_several_lines_are_read(tmp_path):
    rows = ['"Dear all,\nthis is it.\n\nYours, me",1', '"a\r\nb",0', '"He said ""no"", twice\n!",1']
    table = read_cells(written(tmp_path, "\n".join(["text,y", *rows])))
    assert [*table["text"]] == [
        "Dear all,\nthis is it.\n\nYours, me",
        "a\r\nb",
        'He said "no", twice\n!',
    ]
    assert [*table["y"]] == ["1", "0", "1"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_each_end_of_lines_is_read(end, last, mark, tmp_path):
    content = mark + (end.join(["a,\u00e4", "1,2", '3,"4"']) + end * last).encode()
    table = read_cells(written(tmp_path, content))
    assert {name: [*cells] for name, cells in table.items()} == {
        "a": ["1", "3"],
        "\u00e4": ["2", "4"],
    }


@pytest.mark.parametrize("header", [",a,y", "a,,y", "a,y, ", '"",a,y'])
def test_a_column_without_a_name_is_an_error(header, tmp_path):
    path = written(tmp_path, f"{header}\n1,2,0\n3,4,1\n5,6,1\n")
    with refused("records", "data"):
        load_own([path], 0, columns=Columns(label="y"))


@pytest.mark.parametrize("name", ["Unnamed: 0", "__index_level_0__"])
def test_the_index_of_pandas_is_not_learnt_by_the_name_it_gets(name, tmp_path):
    path = written(tmp_path, f"{name},a,y\n0,2,0\n1,4,1\n2,6,1\n")
    with refused("records", "data", value=f"own.csv, column {name}"):
        load_own([path], 0, columns=Columns(label="y"))


@pytest.mark.parametrize("content", ["", "\ufeff", "a,b\n", "a,b", "a,a\n1,2\n", "\n1\n"])
def test_a_file_without_records_or_with_one_name_twice_is_an_error(content, tmp_path):
    with pytest.raises(ArgumentError) as error:
        read_cells(written(tmp_path, content))
    assert error.value.argument == "records"
    assert "own.csv" in str(error.value.value)


@pytest.mark.parametrize("separator", SEPARATORS[1:])
def test_another_separator_is_named_with_what_to_write(separator, tmp_path):
    rows = [["size", "kind, or none", "y"], ["1,5", "a", "0"], ["2", "b", "1"]]
    plain = [["size", "kind", "y"], *rows[1:]]
    for table in (rows, plain):
        path = written(tmp_path, "\n".join(separator.join(row) for row in table))
        with refused("records", "data") as caught:
            read_cells(path)
        assert f"separator = {json.dumps(separator)}" in caught.value.hint
        assert separator_of(path) == separator
        assert [*read_cells(path, separator)["size"]] == ["1,5", "2"]


def test_texts_that_look_like_numbers_are_four_labels(tmp_path):
    path = written(tmp_path, "size,label\n3,1_1\n4,11\n5,1e1\n6,10\n")
    labels = labels_in(path, read_cells(path), Columns(label="label"))
    assert labels == ["1_1", "11", "1e1", "10"]
    assert len(class_names(labels)) == 4
    codes = Category(name="code", categories=("1_1", "11"), outside="clip")
    cells = read_cells(path)["label"]
    assert codes.encode(cells)[0].tolist() == [[0.5, -0.5], [-0.5, 0.5], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    "cell",
    [
        *(
            "20_30",
            "\u0663",
            "\uff11\uff12",
            "1\u0662",
            "0x1F",
            "inf",
            "nan",
            "1e999",
            "1,5",
            "1 000",
        ),
        *("1.2.3", "--1", "1e", "e1", ".", "+", "\u22121", "None", "true", "1d", "1e1.5"),
    ],
)
def test_only_plain_decimal_numbers_are_numbers(cell, tmp_path):
    path = written(tmp_path, f'range,label\n"{cell}",a\n31,b\n')
    with refused("records", "data", "own.csv, record 1, column range"):
        load_own([path], 0, columns=Columns(label="label"))


@pytest.mark.parametrize(
    ("cell", "number"),
    [("-1e3", -1000.0), ("+.5", 0.5), ("7.", 7.0), ("1E-2", 0.01), (" 2 ", 2.0), ("-0", 0.0)],
)
def test_plain_decimal_numbers_are_read(cell, number, tmp_path):
    path = written(tmp_path, f"range,label\n{cell},a\n31,b\n")
    x = features_in(path, read_cells(path), ["range"], texts=False)
    assert x.tolist() == [[number], [31.0]]


@pytest.mark.parametrize("text", ["none", "NA", "nan", "null", "?", "n/a"])
def test_texts_and_labels_that_spell_nothing_are_texts(text, tmp_path):
    path = written(tmp_path, f"text,label\n{text},{text}\nb,mild\n")
    table = read_cells(path)
    assert features_in(path, table, ["text"], texts=True).tolist() == [text, "b"]
    assert labels_in(path, table, Columns(label="label", text="text")) == [text, "mild"]


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
MARKED = st.text(st.sampled_from(list('ab,;"\n\r\t| 1.')), max_size=8)


def texts_of(names: list[str], rows: list[list[str]], **settings: object) -> str:
    file = io.StringIO()
    csv.writer(file, **settings).writerows([names, *rows])  # type: ignore[arg-type]
    return file.getvalue()


@QUICK
@given(
    rows=st.integers(2, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.one_of(CELL, MARKED), min_size=width, max_size=width),
            min_size=1,
            max_size=6,
        )
    ),
    separator=st.sampled_from(SEPARATORS),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
)
def test_what_python_writes_is_read_as_it_was_or_refused(rows, separator, end, quoting, tmp_path):
    names = list(string.ascii_lowercase[: len(rows[0])])
    text = texts_of(names, rows, delimiter=separator, lineterminator=end, quoting=quoting)
    try:
        table = read_cells(written(tmp_path, text), separator)
    except ArgumentError:  # lines may be one record or several, or Python wrote a bare CR
        assert any(re.search(r"[\r\n]", cell) for row in rows for cell in row)
    else:
        assert [list(row) for row in zip(*table.values(), strict=True)] == rows


@QUICK
@given(
    place=st.integers(0, 10_000),
    other=st.integers(0, 10_000),
    bytes_=st.tuples(*[st.sampled_from(list(b'",;\n\r\0\\ \xff0a'))] * 2),
    delete=st.booleans(),
)
@example(place=11, other=300, bytes_=(ord('"'), ord('"')), delete=False)
def test_whatever_changes_in_a_file_each_line_is_a_record_or_the_file_an_error(
    place, other, bytes_, delete, tmp_path
):
    """Two bytes are written into a file of one record a line, or over bytes of it."""
    content = bytearray(b"text,size,label\n")
    content += "".join(f"note {i},{i / 4},{i % 2}\n" for i in range(40)).encode()
    for at, byte in sorted(((place, bytes_[0]), (other, bytes_[1])), reverse=True):
        at %= len(content) + 1
        content[at : at + delete] = bytes([byte])
    try:
        table = read_cells(written(tmp_path, bytes(content)))
    except ArgumentError as error:
        assert error.argument == "records"  # noqa: PT017 - either is right
    else:
        lines = re.split(rb"\r\n|\r|\n", bytes(content).rstrip(b"\r\n"))
        assert {len(cells) for cells in table.values()} == {len(lines) - 1}


@QUICK
@given(
    numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8),
    separator=st.sampled_from(SEPARATORS),
    mark=st.sampled_from([".", ","]),
)
def test_what_pandas_writes_is_read_as_the_same_numbers(numbers, separator, mark, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": numbers, "y": ["a"] * len(numbers)})
    text = frame.to_csv(index=False, sep=separator, decimal=mark)
    cells = read_cells(written(tmp_path, text), separator)["x"]
    assert [number_of(each, mark) for each in cells] == numbers
    assert numbers_of(cells, mark).tolist() == numbers


@QUICK
@given(st.lists(st.text(st.sampled_from(list("0123.-+eE _\t,\u0661")), max_size=6), min_size=1))
def test_a_column_has_the_numbers_of_its_cells(cells):
    one_by_one = [number_of(each) for each in cells]
    np.testing.assert_array_equal(numbers_of(np.array(cells, dtype=object)), one_by_one)


@pytest.mark.parametrize("number", ["0", "1.50", "-3", "1e1"])
def test_labels_are_written_in_one_way_with_either_decimal_mark(number):
    comma = number.replace(".", ",")
    assert label_of(comma, ",") == label_of(number).replace(".", ",")
    assert label_of("1.50", ",") == "1.50"
