"""Records without labels, of which a model is to say what they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from extensions.errors import ArgumentError
from extensions.npz import read_npz
from extensions.owners.data.records import Raw, kind_of, unreadable, unusable
from extensions.owners.data.tables import (
    features_in,
    ids_in,
    is_table,
    naming,
    read_cells,
    texts_in,
)
from extensions.owners.schema import Schema, encode_features

ARRAYS = ("x", "test_x")
"""Arrays of an .npz file that are taken for the records: the first of them that is there."""


@dataclass(frozen=True, kw_only=True)
class Unlabelled:
    """Records of one owner.

    Attributes:
        x: the records.
        clipped: number of values that were clipped to a schema's ranges, by column; its owner's
            alone.
        ids: the column of identifiers, by its name; empty without one.
    """

    x: Raw
    clipped: Mapping[str, int] = field(default_factory=dict)
    ids: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_unlabelled(
    path: Path,
    *,
    columns: Sequence[str],
    text: str | None,
    schema: Schema | None,
    known_by: str | None = None,
) -> Unlabelled:
    """Returns the records of a file, all of them and in its order.

    Args:
        path: .npz with an array ``x`` (or ``test_x``, a party's held-out records), .csv or
            .parquet. Further columns are left out, and so are labels.
        columns: names of the numbers of a table, in the order of a model's features.
        text: column of a table's texts; None where records are numbers.
        schema: by which a table is read, if by any.
        known_by: column of a table's identifiers, which may be one of the model's, too.

    Raises:
        ArgumentError: no such file, one that is damaged or holds other records, or identifiers
            that it does not have.
        MissingExtraError: a .parquet file, and pyarrow is not installed.
    """
    if not is_table(path):
        if known_by is not None:
            advice = "An .npz file has no named columns."
            allowed = "except for a .csv or .parquet file"
            raise ArgumentError("id", known_by, allowed, advice, code="conflict")
        return Unlabelled(x=_read_array(path))
    if schema is None and text is None and not columns:
        advice = "The model names no columns."
        allowed = "an .npz file, or a table of texts in the column {text}"
        raise unreadable(str(path), allowed, advice)
    table = read_cells(path, "," if schema is None else schema.separator)
    ids = {} if known_by is None else {known_by: ids_in(path, table, known_by)}
    if schema is not None:
        with naming(path):
            x, clipped = encode_features(schema, table)
        return Unlabelled(x=x, clipped=clipped, ids=ids)
    x = features_in(path, table, columns) if text is None else texts_in(path, table, text)
    return Unlabelled(x=x, ids=ids)


def _read_array(path: Path) -> Raw:
    if not path.is_file():
        raise unreadable(str(path), "an existing .npz, .csv or .parquet file")
    allowed = f"an .npz file with the records in an array {' or '.join(ARRAYS)}"
    try:
        arrays = read_npz(path, ARRAYS)
        x: Raw = arrays[next(name for name in ARRAYS if name in arrays)]
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
