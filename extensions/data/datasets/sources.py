"""Data sets by name, and files of one's own."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from extensions.checks import LABELS, check_label
from extensions.data.datasets.cifar10 import read_cifar10
from extensions.data.datasets.files import read_party_file
from extensions.data.datasets.imdb import read_imdb
from extensions.data.datasets.mnist import read_mnist
from extensions.data.datasets.records import (
    KINDS,
    Raw,
    Split,
    bounded_rows,
    facts_of,
    kind_of,
    standard_rows,
    unreadable,
    unusable,
)
from extensions.data.datasets.tables import (
    Columns,
    features_in,
    ids_in,
    is_table,
    naming,
    read_cells,
    read_plain,
)
from extensions.data.schema import Schema, encode_table
from extensions.data.schema.encoding import Encoded, encode_unlabelled
from extensions.errors import ArgumentError
from extensions.npz import read_npz

TEST_SHARE = 0.2
DIGITS_SCALE = 255 / 16
NO_COLUMNS = Columns()

X_ARRAYS = ("x", "test_x")
"""Arrays of an .npz file that are taken for records without labels: the first that is there."""
FORMATS = ("csv", "parquet", "npz")
EMBEDDED = ("digits", *FORMATS)
"""What needs no folder of published files."""


def load(name: str, data_dir: Path | None, seed: int) -> Split:
    """Returns a data set by name, every row centred and scaled to Euclidean norm 1.

    A table is not centred, and its rows are only shortened if they are longer than that.
    """
    raw = load_raw(name, data_dir, seed)
    return replace(raw, train_x=raw_rows(raw.train_x), test_x=raw_rows(raw.test_x))


def raw_rows(x: Raw, bound: float = 1.0) -> Raw:
    """Returns pixels as centred rows of norm `bound`, and rows of a table cut to it."""
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
) -> Split:
    """Returns records before features are taken, in an order shuffled by the seed.

    The name is "digits" (scikit-learn's 1,797 embedded 8x8 digits), "csv:PATH" or "parquet:PATH",
    of which a seeded fifth is held out; or "mnist", "cifar10", "imdb" or "npz:PATH", which have
    their own test split.
    """
    if name in READERS:
        read, classes = READERS[name]
        return replace(in_order(seed, read(data_dir, download)), classes=classes)
    form, colon, path = name.partition(":")
    if form not in FORMATS or not colon:
        known = ", ".join(map(repr, READERS))
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
) -> list[Split]:
    """Returns the records of each file, with the same classes for all.

    Files are .npz with train_x, train_y, test_x and test_y; or .csv or .parquet, of which a seeded
    fifth is held out. Columns of tables are found by their names: the first file's order is that of
    the features. Without `names` all distinct labels of all tables are classes, which become
    public. Without `classes` labels are below `LABELS`, unless more names are given.
    """
    tables = [path for path in paths if is_table(path)]
    if schema is None:
        encoded, order, known = read_plain(tables, columns, names)
    else:
        encoded = {path: _by_schema(schema, path) for path in tables}

    def read(path: Path) -> Split:
        found = encoded[path] if path in tables else read_party_file(path, KINDS)
        with naming(path):
            split = in_order(seed, found)
        if schema is not None:
            facts = schema.facts()
        else:
            facts = facts_of(order if path in tables else (), known)
        return replace(split, recipe={**split.recipe, **facts}, schema=schema)

    splits = [read(path) for path in paths]
    if schema is not None:
        return [replace(split, classes=schema.settings["classes"]) for split in splits]
    shapes = {(split.kind, split.train_x.shape[1:]) for split in splits}
    if len(shapes) > 1:
        allowed = "of the same kind and width at all parties"
        raise ArgumentError("records", sorted(shapes), allowed, code="shape")
    most = max(max(y.max(initial=0).item() for y in (s.train_y, s.test_y)) for s in splits)
    check_label("labels", most, classes or max(LABELS, len(known if names else ())))
    count = classes or max(2, len(known), int(most) + 1)
    return [replace(split, classes=count) for split in splits]


def _by_schema(schema: Schema, path: Path) -> Encoded:
    table = read_cells(path, schema.separator)
    with naming(path):
        return encode_table(schema, table)


def read_unlabelled(
    path: Path,
    *,
    columns: Sequence[str],
    text: str | None,
    schema: Schema | None,
    known_by: str | None = None,
) -> tuple[Encoded, Mapping[str, Sequence[str]]]:
    """Returns the records of a file, all of them and in its order, and its column of identifiers.

    Args:
        path: .npz with an array ``x`` (or ``test_x``, a party's held-out records), .csv or
            .parquet. Further columns are left out, and so are labels.
        columns: names of the numbers of a table, in the order of a model's features.
        text: column of a table's texts; None where records are numbers.
        known_by: column of a table's identifiers, which may be one of the model's, too.
    """
    if not is_table(path):
        if known_by is not None:
            advice = "An .npz file has no named columns."
            allowed = "except for a .csv or .parquet file"
            raise ArgumentError("id", known_by, allowed, advice, code="conflict")
        return Encoded(x=_read_array(path)), {}
    if schema is None and text is None and not columns:
        advice = "The model names no columns."
        allowed = "an .npz file, or a table of texts in the column {text}"
        raise unreadable(str(path), allowed, advice)
    table = read_cells(path, "," if schema is None else schema.separator)
    ids = {} if known_by is None else {known_by: ids_in(path, table, known_by)}
    if schema is not None:
        with naming(path):
            return encode_unlabelled(schema, table), ids
    names = columns if text is None else [text]
    return Encoded(x=features_in(path, table, names, texts=text is not None)), ids


def _read_array(path: Path) -> Raw:
    if not path.is_file():
        raise unreadable(str(path), "an existing .npz, .csv or .parquet file")
    allowed = f"an .npz file with the records in an array {' or '.join(X_ARRAYS)}"
    try:
        arrays = read_npz(path, X_ARRAYS)
        x: Raw = arrays[next(name for name in X_ARRAYS if name in arrays)]
    except (StopIteration, ValueError) as error:
        raise unreadable(str(path), allowed) from error
    if x.dtype.kind == "U":
        x = x.astype(object)
    if kind_of(x) is None or not len(x):
        allowed = f"{allowed}: one or more"
        raise ArgumentError("records", f"{path}: {x.shape} {x.dtype}", allowed, code="shape")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        raise unusable(str(path), "a file of finite numbers")
    return x


def in_order(seed: int, found: Split | Encoded) -> Split:
    """Training records in an order drawn from the seed.

    Of a table a fifth of the records is held out, or of the persons with all records of each.
    """
    draw = np.random.default_rng(seed)
    if isinstance(found, Split):
        return found.taken(draw.permutation(len(found.train_x)))
    x, y, units = found.x, found.y, found.units
    order = draw.permutation(len(x))
    number = len(x) if units is None else int(units.max()) + 1
    cut = round(TEST_SHARE * number)
    if cut == 0:
        what = "records" if units is None else "persons"
        raise unusable(f"{number} {what}", "at least 3, so that a fifth can be held out")
    if units is None:
        test, train = order[:cut], order[cut:]
    else:
        apart = (draw.permutation(number) < cut)[units[order]]
        test, train = order[apart], order[~apart]
    whole = Split(train_x=x, train_y=y, test_x=x, test_y=y, train_units=units)
    own = whole.taken(train, test)
    return replace(own, clipped=found.clipped, left_out=found.left_out)


def _digits(folder: Path | None, download: bool) -> Encoded:
    """Reads the file in scikit-learn, whose import would take 3 s."""
    spec = importlib.util.find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    rows = np.loadtxt(path, delimiter=",")
    images = rows[:, :-1].reshape(-1, 8, 8)
    return Encoded(x=images * DIGITS_SCALE, y=rows[:, -1].astype(np.int64))


READERS: dict[str, tuple[Callable[[Path | None, bool], Split | Encoded], int]] = {
    "digits": (_digits, 10),
    "mnist": (read_mnist, 10),
    "cifar10": (read_cifar10, 10),
    "imdb": (read_imdb, 2),
}
"""How data sets are read, given a folder and whether to download, and how many classes they have.

A split of the publisher's is kept.
"""
