"""Records of one data set or one party: as they are, and as the numbers that a model is given."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from extensions.data.schema import Schema
from extensions.errors import ArgumentError
from extensions.public import Public
from extensions.ring.fixed_point import Reals

Labels = npt.NDArray[np.int64] | npt.NDArray[np.float64]
"""Numbers of classes, or targets in [0, 1] of what is a number itself, (records,)."""
Raw = npt.NDArray[Any]
"""Records of one kind:

- images, (records, height, width) or (records, height, width, 3), values in 0..255;
- a table, (records, columns), numbers;
- texts, (records,), each a string.
"""
Units = npt.NDArray[np.int64]
Kind = Literal["images", "table", "texts"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Recipe = Mapping[str, Any]
"""How owners made numbers of records, by names that an error can show, as JSON has it: public."""
ORDER = "order of persons"
"""What a recipe calls the digest of the order in which owners have the same persons."""
ARRAYS = ("train_x", "train_y", "test_x", "test_y")
UNITS = "train_units"
ALL = slice(None)

unreadable = partial(ArgumentError, "records", code="file")
"""Makes the error of a file of records."""
unusable = partial(ArgumentError, "records", code="data")
"""Makes the error of some of them; its value says where they are."""


def kind_of(x: Raw) -> Kind | None:
    """Returns what the records are, by shape, type and range of their array; None if nothing."""
    numeric = x.dtype.kind in "biuf"
    if numeric and x.ndim == 2:
        return "table"
    if numeric and (x.ndim == 3 or (x.ndim == 4 and x.shape[-1] == 3)):
        within = np.isfinite(x).all() and x.min(initial=0) >= 0 and x.max(initial=0) <= 255
        return "images" if within else None
    if x.ndim == 1 and x.dtype.kind in "OU" and all(isinstance(text, str) for text in x):
        return "texts"
    return None


@dataclass(frozen=True, kw_only=True)
class Split:
    """One owner's records, or their features, and labels (records,), for training and for testing.

    Attributes:
        recipe: how the features were made, or names of columns and classes, or the schema; empty
            where nothing is known of it.
        train_units: numbers of the persons whom training records are about, (records,); None where
            each is about another.
        classes: number of classes; 0 where it is not known.
        clipped: number of values that were clipped, by column; its owner's alone.
        left_out: number of records beyond the most that count of a person; its owner's alone.
    """

    train_x: Raw
    train_y: Labels
    test_x: Raw
    test_y: Labels
    recipe: Recipe = field(default_factory=dict)
    train_units: Units | None = None
    classes: int = 0
    schema: Schema | None = None
    clipped: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Records and labels by name, as files have them."""
        found = {name: getattr(self, name) for name in (*ARRAYS, UNITS)}
        return {name: array for name, array in found.items() if array is not None}

    def taken(self, train: Any = ALL, test: Any = ALL) -> "Split":
        """Returns those of its records that two indices of arrays name."""
        rows = {name: test if name.startswith("test") else train for name in self.arrays}
        arrays: Any = {name: array[rows[name]] for name, array in self.arrays.items()}
        return replace(self, **arrays)

    @property
    def kind(self) -> Kind | None:
        """What the records are."""
        kind = kind_of(self.train_x)
        return kind if kind == kind_of(self.test_x) else None

    @property
    def drawn(self) -> int:
        """Number of training records, or of persons where these may have several: public."""
        units = self.train_units
        return len(self.train_x) if units is None else len(np.unique(units))

    @property
    def public(self) -> Public:
        """What is public of them, once they are features."""
        return Public(
            records=self.drawn,
            features=self.train_x.shape[1],
            held_out=len(self.test_x),
            recipe=self.recipe,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What settings of a run follow from it, by name."""
        if self.schema is not None:
            return self.schema.settings
        kind = self.recipe.get("kind", self.kind)  # before features were taken
        named = kind if kind in ("images", "texts") else "tables"
        return {"classes": self.classes, "facts": dict(self.recipe), "data_kind": named}


def no_labels(records: int) -> Labels:
    """Returns the labels of an owner that has none of so many records: no column of them."""
    return np.zeros((records, 0), dtype=np.int64)


def has_labels(labels: Labels) -> bool:
    """Whether they are any, and not those of `no_labels`."""
    return labels.ndim == 1


def facts_of(columns: Sequence[str], classes: Sequence[str]) -> dict[str, str]:
    """Returns the names of a table's columns and classes as all parties must have them alike."""
    names = {f"column {place}": name for place, name in enumerate(columns, start=1)}
    return names | {f"class {place}": name for place, name in enumerate(classes)}


def common_facts(facts: Recipe) -> dict[str, Any]:
    """Returns those of facts that owners have alike who have other columns of the same records."""
    common = {"schema target", "schema unit", ORDER}
    return {k: v for k, v in facts.items() if k in common or k.startswith("class ")}


def columns_in(facts: Recipe) -> tuple[str, ...]:
    """Returns the names of a table's numbers, in order, or of its column of texts; else nothing."""
    schema = Schema.of_facts(facts)
    return _named("column", 1, facts) if schema is None else schema.features


def classes_in(facts: Recipe) -> tuple[str, ...]:
    """Returns the names of classes in the order of their numbers; nothing if they have none."""
    schema = Schema.of_facts(facts)
    return _named("class", 0, facts) if schema is None else schema.target.classes


def _named(what: str, first: int, facts: Recipe) -> tuple[str, ...]:
    names = (f"{what} {place}" for place in itertools.count(first))
    return tuple(str(facts[name]) for name in itertools.takewhile(facts.__contains__, names))


def standard_rows(x: npt.NDArray[np.generic], bound: float = 1.0) -> Reals:
    """Returns each row less its own mean, scaled to Euclidean norm `bound`; constant rows are zero.

    A function of the row alone, so that it costs no privacy.
    """
    reals = x.astype(np.float64)
    reals -= reals.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(reals, axis=1, keepdims=True)
    return reals / np.where(norms > 0.0, norms / bound, 1.0)


def bounded_rows(x: npt.NDArray[np.generic], bound: float = 1.0) -> Reals:
    """Returns each row with its norm cut to `bound` if it is longer, in its own direction.

    A function of the row alone, so that it costs no privacy.
    """
    reals = x.astype(np.float64)
    norms = np.linalg.norm(reals, axis=1, keepdims=True)
    bounded: Reals = reals / np.maximum(norms / bound, 1.0)
    return bounded
