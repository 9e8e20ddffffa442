"""Data sets by name, and files of one's own."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from extensions.checks import LABELS, check_label
from extensions.errors import ArgumentError
from extensions.owners.data.cifar10 import read_cifar10
from extensions.owners.data.files import read_raw_file
from extensions.owners.data.imdb import read_imdb
from extensions.owners.data.mnist import read_mnist
from extensions.owners.data.records import Labels, Raw, Split, Units, unusable
from extensions.owners.data.rows import bounded_rows, standard_rows
from extensions.owners.data.tables import (
    Columns,
    TableRecords,
    class_names,
    class_numbers,
    in_order_of,
    is_table,
    naming,
    read_cells,
    read_table,
)
from extensions.owners.schema import Encoded, Schema, encode_table, label_of

TEST_SHARE = 0.2
DIGITS_SCALE = 255 / 16
NO_COLUMNS = Columns()

READERS: dict[str, tuple[Callable[[Path | None, bool], Split], int]] = {
    "mnist": (read_mnist, 10),
    "cifar10": (read_cifar10, 10),
    "imdb": (read_imdb, 2),
}
FORMATS = ("csv", "parquet", "npz")
EMBEDDED = ("digits", *FORMATS)
"""What needs no folder of published files."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Records of one owner, or of all, with the number of their classes.

    Attributes:
        split: the records.
        classes: number of classes.
        names: what the labels of a table were, in the order of their numbers; else empty.
        columns: names of a table's numbers, in order; else empty.
        schema: by which a table was read, if by any.
        clipped: number of values that were clipped, by column; its owner's alone.
        left_out: number of records beyond the most that count of a person; its owner's alone.
    """

    split: Split
    classes: int
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    schema: Schema | None = None
    clipped: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """What of the records is public and must be alike at all parties, by name."""
        if self.schema is not None:
            return {**self.split.recipe, **self.schema.facts()}
        columns = {f"column {place}": name for place, name in enumerate(self.columns, start=1)}
        classes = {f"class {place}": name for place, name in enumerate(self.names)}
        return {**self.split.recipe, **columns, **classes}

    @property
    def stated(self) -> Split:
        """The records, with what is public of them."""
        return replace(self.split, recipe=self.facts)

    @property
    def kind(self) -> str:
        """What the records were before features were taken, of a file of features too."""
        kind = self.split.recipe.get("kind", self.split.kind)
        return kind if kind in ("images", "texts") else "tables"

    @property
    def settings(self) -> dict[str, Any]:
        """What settings of a run follow from it, by name."""
        if self.schema is not None:
            return settings_of(self.schema)
        return {"classes": self.classes, "facts": self.facts, "data_kind": self.kind}


def settings_of(schema: Schema) -> dict[str, Any]:
    """Returns what settings of a run follow from a schema, by name."""
    return {
        "classes": len(schema.target.classes) or 1,
        "facts": schema.facts(),
        "class_weights": schema.target.weights or None,
        "rows_per_unit": 1 if schema.unit is None else schema.unit.rows,
        "data_kind": "tables",
    }


def load(name: str, data_dir: Path | None, seed: int) -> Split:
    """Returns a data set by name, every row centred and scaled to Euclidean norm 1.

    A table is not centred, and its rows are only shortened if they are longer than that.

    Raises:
        ArgumentError: an unknown name, files that are missing or damaged, or texts, which have no
            numbers before features are taken.
    """
    raw = load_raw(name, data_dir, seed).split
    return Split(
        train_x=raw_rows(raw.train_x),
        train_y=raw.train_y,
        test_x=raw_rows(raw.test_x),
        test_y=raw.test_y,
    )


def raw_rows(x: Raw, bound: float = 1.0) -> Raw:
    """Returns pixels as centred rows of norm `bound`, and rows of a table cut to it.

    Raises:
        ArgumentError: texts.
    """
    if x.dtype == object:
        advice = "Give {features=words} or {features=hashed}."
        raise ArgumentError("features", "raw", "an extractor for texts", advice)
    return bounded_rows(x, bound) if x.ndim == 2 else standard_rows(x.reshape(len(x), -1), bound)


def load_raw(
    name: str,
    data_dir: Path | None,
    seed: int,
    *,
    columns: Columns = NO_COLUMNS,
    names: Sequence[str] | None = None,
    schema: Schema | None = None,
    download: bool = False,
) -> Source:
    """Returns records before features are taken, in an order shuffled by the seed.

    Args:
        name: "digits" (scikit-learn's 1,797 embedded 8x8 digits; a seeded fifth is held out);
            "mnist", "cifar10" or "imdb" (files with their own test split); "csv:PATH" or
            "parquet:PATH" (a seeded fifth is held out) or "npz:PATH" (train_x, train_y, test_x,
            test_y).
        data_dir: folder of the files of mnist, cifar10 or imdb; None: of `find_folder`.
        seed: of shuffling and holding out; public.
        columns: of a table.
        names: of the classes of a table, in order; None: the distinct labels of the file, which
            become public.
        schema: of a table, instead of columns and names.
        download: fetch what is missing from where it is published.

    Raises:
        ArgumentError: an unknown name, or files that are missing or damaged.
    """
    if name == "digits":
        return Source(split=_digits(seed), classes=10)
    if name in READERS:
        read, classes = READERS[name]
        return Source(split=_shuffled(read(data_dir, download), seed), classes=classes)
    form, colon, path = name.partition(":")
    if form not in FORMATS or not colon:
        known = ", ".join(repr(each) for each in ("digits", *READERS))
        allowed = f"{known}, or csv:PATH, parquet:PATH or npz:PATH"
        raise ArgumentError("data", name, allowed, code="choice")
    if Path(path).suffix.lower() != f".{form}":
        allowed = f"the path of a file whose name ends in .{form}"
        raise ArgumentError("data", name, allowed, code="file")
    return load_own([Path(path)], seed, columns=columns, names=names, schema=schema)[0]


def load_own(
    paths: Sequence[Path],
    seed: int,
    *,
    columns: Columns = NO_COLUMNS,
    names: Sequence[str] | None = None,
    schema: Schema | None = None,
    classes: int | None = None,
) -> list[Source]:
    """Returns the records of each file, with the same classes for all.

    Columns of tables are found by their names: the first file's order is that of the features.

    Args:
        paths: .npz with train_x, train_y, test_x, test_y; or .csv or .parquet, of which a seeded
            fifth is held out.
        seed: of shuffling and holding out; public.
        columns: of tables.
        names: of the classes of tables; None: all distinct labels of all files.
        schema: by which tables are read, instead of columns and names.
        classes: number of classes, if known; else labels are below `LABELS`, unless more names are
            given.

    Raises:
        ArgumentError: as `read_raw_file`, `read_table` and `encode_table`; files of different width
            or kind, tables of different columns, or a label of more classes than there are.
    """
    if schema is not None:
        return [_by_schema(path, seed, schema) for path in paths]
    tables = {path: read_table(path, columns) for path in paths if is_table(path)}
    order = next(iter(tables.values())).columns if tables else ()
    tables = {
        path: in_order_of(own, order, path) for path, own in tables.items() if own.columns
    } | {path: own for path, own in tables.items() if not own.columns}
    labels = [label for own in tables.values() for label in own.labels]
    known = class_names(labels) if names is None else tuple(label_of(name) for name in names)
    splits = [
        _labelled(path, tables[path], known, columns, seed)
        if path in tables
        else _shuffled(read_raw_file(path), seed)
        for path in paths
    ]
    shapes = {(split.kind, split.train_x.shape[1:]) for split in splits}
    if len(shapes) > 1:
        allowed = "of one kind and width at all parties"
        raise ArgumentError("records", sorted(shapes), allowed, code="shape")
    named = order if columns.text is None else (columns.text,)
    most = max(max(y.max(initial=0).item() for y in (s.train_y, s.test_y)) for s in splits)
    check_label("labels", most, classes or max(LABELS, len(known if names else ())))
    count = max(2, len(known), int(most) + 1)
    return [
        Source(split=split, classes=count, names=known, columns=named if path in tables else ())
        for path, split in zip(paths, splits, strict=True)
    ]


def _labelled(
    path: Path, own: TableRecords, names: Sequence[str], columns: Columns, seed: int
) -> Split:
    assert columns.label is not None
    with naming(path):
        return _held_out(own.x, class_numbers(own.labels, names, columns.label), seed)


def _by_schema(path: Path, seed: int, schema: Schema) -> Source:
    """One owner's table as its schema says, or a file of features that were taken so."""
    names = schema.target.classes
    source = partial(Source, classes=len(names) or 1, names=names, schema=schema)
    if not is_table(path):
        return source(split=_shuffled(read_raw_file(path), seed))
    table = read_cells(path, schema.separator)
    with naming(path):
        own = encode_table(schema, table)
        units = own.units
        split = _held_out(own.x, own.y, seed) if units is None else _by_unit(own, units, seed)
    return source(split=split, columns=schema.features, clipped=own.clipped, left_out=own.left_out)


def _digits(seed: int) -> Split:
    """Reads the file in scikit-learn, whose import would take 3 s."""
    spec = importlib.util.find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    rows = np.loadtxt(path, delimiter=",")
    images = rows[:, :-1].reshape(-1, 8, 8)
    return _held_out(images * DIGITS_SCALE, rows[:, -1].astype(np.int64), seed)


def _by_unit(own: Encoded, units: Units, seed: int) -> Split:
    """Holds persons out, all records of each."""
    draw = np.random.default_rng(seed)
    people, order = int(units.max()) + 1, draw.permutation(len(units))
    cut = round(TEST_SHARE * people)
    if cut == 0:
        allowed = "of 3 persons at least, so that a fifth can be held out"
        raise unusable(f"of {people} persons", allowed)
    apart = (draw.permutation(people) < cut)[units[order]]
    test, train = order[apart], order[~apart]
    return Split(
        train_x=own.x[train],
        train_y=own.y[train],
        test_x=own.x[test],
        test_y=own.y[test],
        train_units=units[train],
    )


def _held_out(x: Raw, y: Labels, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(x))
    cut = round(TEST_SHARE * len(x))
    if not 0 < cut < len(x):
        given = f"{len(x)} records"
        raise unusable(given, "at least 3, so that a fifth can be held out")
    x, y = x[order], y[order]
    return Split(train_x=x[cut:], train_y=y[cut:], test_x=x[:cut], test_y=y[:cut])


def _shuffled(split: Split, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(split.train_x))
    units = None if split.train_units is None else split.train_units[order]
    x, y = split.train_x[order], split.train_y[order]
    return replace(split, train_x=x, train_y=y, train_units=units)
