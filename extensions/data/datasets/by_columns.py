"""Owners who have different columns of the same persons, in one order, and one of them the labels.

What an owner's rows become depends on its own columns of one person alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, starmap
from pathlib import Path

from extensions.checks import LABELS, check_label
from extensions.data.aligned import Alignment
from extensions.data.datasets.files import read_classes, read_party_file
from extensions.data.datasets.records import (
    KINDS,
    ORDER,
    Split,
    columns_in,
    facts_of,
    has_labels,
    no_labels,
    unusable,
)
from extensions.data.datasets.sources import NO_COLUMNS, in_order
from extensions.data.datasets.tables import (
    DRAFTED,
    Columns,
    check_columns,
    class_names,
    class_numbers,
    features_in,
    is_table,
    labels_in,
    naming,
    read_cells,
)
from extensions.data.schema import Schema, encode_table
from extensions.data.schema.cells import Cells, label_of
from extensions.data.schema.encoding import Encoded, encode_unlabelled
from extensions.errors import ArgumentError
from extensions.rules import Whole


def load_columns(
    paths: Sequence[Path],
    seed: int,
    *,
    columns: Columns = NO_COLUMNS,
    names: Sequence[str] | None = None,
    schema: Schema | None = None,
    classes: int | None = None,
) -> list[Split]:
    """Returns the records of each file, whose columns are of the same persons in one order.

    Files are those of `load_own`. One has the column of labels. Of several files a schema names the
    columns of all, each in one of them; of one file its own. The seed decides who is held out, who
    are the same persons at every owner.

    Raises:
        ArgumentError: a file that is none; of several, numbers of persons or orders that differ,
            none or several with labels, or a column in several or none.
    """
    mark = "," if schema is None else schema.separator
    tables = {path: read_cells(path, mark) for path in paths if is_table(path)}
    schemas = _of_each(schema, tables) if schema is not None and len(paths) > 1 else {}
    known = None if names is None else tuple(map(label_of, names))
    parts = []
    for path in paths:
        found: Split | Encoded
        own = schemas.get(path, schema)
        with naming(path):
            if path not in tables:
                found, recipe = read_party_file(path, KINDS, labelled=False), {}
                said = read_classes(path)
            elif own is not None:
                found, recipe, said = _by_schema(own, tables[path]), own.facts(), None
            else:
                found, recipe, known = _plain(path, tables[path], columns, known)
                said = None if known is None else len(known)
            part = in_order(seed, found)
        recipe = {**part.recipe, **recipe, **_order_of(path, part)}
        parts.append(replace(part, recipe=recipe, schema=own, classes=said or 0))
    return _checked(parts, classes)


def cut_columns(load: Callable[..., Split], schema: Schema | None, parties: int) -> list[Split]:
    """Returns parts of one data set's columns, or of its rows of pixels, one for each party.

    Args:
        load: returns the records by the schema that it is given as such.

    Returns:
        The parts, of which the first has the labels.
    """
    if schema is not None:
        blocks = _blocks(len(schema.columns), parties)
        parts = [load(schema=replace(schema, columns=schema.columns[block])) for block in blocks]
    else:
        whole = load(schema=None)
        parts = [_part(whole, block) for block in _blocks(whole.train_x.shape[1], parties)]
    return [parts[0], *map(_unlabelled, parts[1:])]


def _blocks(width: int, parties: int) -> Iterator[slice]:
    Whole(1, width, f"at most {width}, the number of columns").check("parties", parties)
    return starmap(slice, pairwise(width * i // parties for i in range(parties + 1)))


def _part(whole: Split, block: slice) -> Split:
    facts = {k: v for k, v in whole.recipe.items() if not k.startswith("column ")}
    facts |= facts_of(columns_in(whole.recipe)[block], ())
    x = {name: getattr(whole, name)[:, block] for name in ("train_x", "test_x")}
    return replace(whole, recipe=facts, **x)


def _unlabelled(part: Split) -> Split:
    return replace(part, train_y=no_labels(len(part.train_x)), test_y=no_labels(len(part.test_x)))


def _of_each(schema: Schema, tables: Mapping[Path, Mapping[str, Cells]]) -> dict[Path, Schema]:
    """Returns what a schema of all columns says of each file's."""
    for name in (*(column.name for column in schema.columns), schema.target.column):
        having = [path.name for path, table in tables.items() if name in table]
        if len(having) != 1:
            given = f"column {name}, in {', '.join(having) or 'no file'}"
            raise ArgumentError("records", given, "in one file", code="data")
    return {
        path: replace(schema, columns=tuple(one for one in schema.columns if one.name in table))
        for path, table in tables.items()
    }


def _by_schema(schema: Schema, table: Mapping[str, Cells]) -> Encoded:
    if schema.target.column in table:
        return encode_table(schema, table)
    found = encode_unlabelled(schema, table)
    return replace(found, y=no_labels(len(found.x)))


def _plain(
    path: Path, table: Mapping[str, Cells], columns: Columns, known: tuple[str, ...] | None
) -> tuple[Encoded, dict[str, str], tuple[str, ...] | None]:
    """Returns a table's numbers and labels, names of columns and classes, and the classes."""
    order = tuple(name for name in table if name != columns.label)
    check_columns(path, order, order)
    x = features_in(path, table, order, texts=False, advice=DRAFTED)
    y = no_labels(len(x))
    if columns.label in table:
        labels = labels_in(path, table, Columns(label=columns.label))
        known = class_names(labels) if known is None else known
        y = class_numbers(labels, known, columns.label)
    return Encoded(x=x, y=y), facts_of(order, known or ()), known


def _order_of(path: Path, part: Split) -> dict[str, str]:
    """Returns the digest of the order in which `pea align` put the records; nothing if it did not.

    Raises:
        ArgumentError: a file of that name that `pea align` has not written, or for other records.
    """
    beside, rows = Alignment.beside(path), len(part.train_x) + len(part.test_x)
    if not beside.is_file():
        return {}
    if (found := Alignment.read(beside)).rows != rows:
        rule, advice = f"the {found.rows} that were aligned", "Align the file again."
        raise unusable(f"{path.name}: {rows} records", rule, advice)
    return {ORDER: found.order}


def _checked(parts: list[Split], classes: int | None) -> list[Split]:
    """Returns parts that go together, with the same classes for all."""
    labelled = [part for part in parts if has_labels(part.train_y)]
    if len(parts) > 1:
        for name, found in (
            ("records", [len(part.train_x) + len(part.test_x) for part in parts]),
            ("order", [part.recipe.get(ORDER) for part in parts]),
        ):
            if len({*found}) > 1:
                advice = "Align the files again." if name == "order" else ""
                raise ArgumentError(name, found, "equal in all files", advice, code="data")
        if len(labelled) != 1:
            given = f"in {len(labelled)} files"
            raise ArgumentError("labels", given, "in one file", code="data")
    if parts[0].schema is not None:
        return [replace(part, classes=parts[0].schema.settings["classes"]) for part in parts]
    most = max(
        (y.max(initial=0).item() for p in labelled for y in (p.train_y, p.test_y)), default=1
    )
    told = max(part.classes for part in parts)
    check_label("labels", most, classes or max(LABELS, told))
    count = classes or max(2, told, int(most) + 1)
    return [replace(part, classes=count) for part in parts]
