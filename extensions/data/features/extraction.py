"""Features of one owner's records, taken on its own machine before anything is shared."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from extensions.data.datasets.records import Kind, Raw, Split, standard_rows
from extensions.data.datasets.sources import raw_rows
from extensions.data.features.cache import Cache
from extensions.data.features.extractor import Extractor, Features
from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Reals

ALONE_TOLERANCE = 1e-3
"""How far a record's row may move, relative to its norm, by which others it came with."""

Progress = Callable[[int, int], None]


def extract(
    split: Split,
    extractor: Extractor,
    *,
    bound: float = 1.0,
    cache: Cache | None = None,
    progress: Progress = lambda done, total: None,
) -> Split:
    """Returns the owner's features, each row of norm at most `bound`.

    Rows of a table that are left raw are shortened if they are longer; all others are centred and
    brought to that norm. Either is a function of the row alone. `progress` is called with the
    number of records done and that of all.
    """
    check_kind(split.kind, extractor)
    total = len(split.train_x) + len(split.test_x)

    def rows(x: Raw, before: int) -> Reals:
        return rows_of(x, extractor, bound, cache, lambda done: progress(before + done, total))

    train_x = rows(split.train_x, 0)
    test_x = rows(split.test_x, len(train_x)) if len(split.test_x) else train_x[:0]
    kept = split.kind == "table" and extractor.name == "raw"
    scaling = "rows cut to norm" if kept else "rows centred, of norm"
    scaling = "none" if extractor.exact else f"{scaling} {bound:g}"
    return replace(
        split,
        recipe={
            **split.recipe,
            **extractor.statement,
            "kind": split.kind,
            "scaling": scaling,
        },
        train_x=train_x,
        test_x=test_x,
    )


def rows_of(
    x: Raw, extractor: Extractor, bound: float, cache: Cache | None, progress: Callable[[int], None]
) -> Reals:
    """Returns the rows of features of one or more records, as `extract` does."""
    if extractor.name == "raw":
        return raw_rows(x, bound)
    if extractor.exact:
        return _taken(x, extractor, progress).astype(np.float64)
    return standard_rows(_cached(x, extractor, cache, progress), bound)


def check_kind(kind: Kind | None, extractor: Extractor) -> None:
    """Checks that an extractor takes records of that kind."""
    if kind not in extractor.kinds:
        advice = f"This one takes {' and '.join(extractor.kinds)}."
        raise ArgumentError("features", extractor.name, f"an extractor for {kind}", advice)


def _cached(
    x: Raw, extractor: Extractor, cache: Cache | None, progress: Callable[[int], None]
) -> Features:
    if cache is None or extractor.identity is None:
        return _taken(x, extractor, progress)
    path = cache.path(extractor, x)
    kept = cache.read(path)
    if kept is not None and len(kept) == len(x):
        progress(len(x))
        return kept
    features = _taken(x, extractor, progress)
    cache.write(path, features)
    return features


def _taken(x: Raw, extractor: Extractor, progress: Callable[[int], None]) -> Features:
    if extractor.checks_rows:
        _check_alone(x, extractor)
    parts = []
    for start in range(0, len(x), extractor.batch):
        batch = x[start : start + extractor.batch]
        parts.append(_checked(extractor, batch))
        progress(start + len(batch))
    if len({part.shape[1] for part in parts}) > 1:
        allowed = "a function whose rows all have one width"
        raise ArgumentError("features", extractor.name, allowed, code="shape")
    return np.concatenate(parts)


def _checked(extractor: Extractor, batch: Raw) -> Features:
    rows = np.asarray(extractor.function(batch))
    if (
        rows.ndim != 2
        or len(rows) != len(batch)
        or 0 in rows.shape
        or rows.dtype.kind not in "biuf"
    ):
        raise ArgumentError(
            "features",
            f"{extractor.name}, which returned {rows.shape} {rows.dtype} for {len(batch)} records",
            f"a function that returns numbers of shape ({len(batch)}, features)",
            code="shape",
        )
    features = rows.astype(np.float32)
    if not np.isfinite(features).all():
        raise ArgumentError("features", extractor.name, "a function that returns finite numbers")
    return features


def _check_alone(x: Raw, extractor: Extractor) -> None:
    together = _checked(extractor, x[: extractor.batch])
    for row in range(min(2, len(x))):
        alone = _checked(extractor, x[row : row + 1])
        moved = alone.shape[1:] != together.shape[1:] or not (
            np.linalg.norm(alone[0] - together[row])
            <= ALONE_TOLERANCE * np.linalg.norm(together[row])
        )
        if moved:
            raise ArgumentError(
                "features",
                extractor.name,
                "a function of one record at a time",
                f"Record {row} has other features alone than among {len(together)}. An extractor "
                "must not be fitted to the records, because no epsilon would cover that.",
            )
