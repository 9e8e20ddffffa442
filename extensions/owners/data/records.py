"""Records of one data set or one party: as they are, and as the numbers that a model is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Reals
from extensions.rules import Whole

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
class RawSplit:
    """Records and labels (records,), for training and for testing, before features are taken.

    Attributes:
        recipe: names of columns and classes, if they have any.
        train_units: numbers of the persons whom training records are about, (records,); None where
            each is about another.

    Raises:
        ArgumentError: records of no kind, or of two kinds.
    """

    train_x: Raw
    train_y: Labels
    test_x: Raw
    test_y: Labels
    recipe: Recipe = field(default_factory=dict)
    train_units: Units | None = None

    def __post_init__(self) -> None:
        kinds = [kind_of(self.train_x), kind_of(self.test_x)]
        if kinds[0] is None or kinds[0] != kinds[1]:
            given = [f"{x.shape} {x.dtype}" for x in (self.train_x, self.test_x)]
            allowed = (
                "images (records, height, width) or (records, height, width, 3) with values in "
                "0..255, a table (records, columns) of numbers, or texts (records,)"
            )
            raise ArgumentError("records", given, allowed, code="shape")

    @property
    def drawn(self) -> int:
        """Number of training records, or of persons where these may have several: public."""
        return _drawn(self)

    @property
    def kind(self) -> Kind:
        """What the records are."""
        kind = kind_of(self.train_x)
        assert kind is not None
        return kind


@dataclass(frozen=True, kw_only=True)
class Split:
    """Features (records, features) and labels (records,), for training and for testing.

    Attributes:
        recipe: how the features were made; empty where nothing is known of it.
        train_units: numbers of the persons whom training records are about, (records,); None where
            each is about another.
    """

    train_x: Reals
    train_y: Labels
    test_x: Reals
    test_y: Labels
    recipe: Recipe = field(default_factory=dict)
    train_units: Units | None = None

    def facts(self, rank: int) -> dict[str, int]:
        """Returns the public sizes, by name, of the records that party `rank` holds."""
        return self.outline.facts(rank)

    @property
    def outline(self) -> "Outline":
        """What is public of the records."""
        columns, held_out = self.train_x.shape[1], len(self.test_x)
        return Outline(recipe=self.recipe, columns=columns, train=self.drawn, held_out=held_out)

    @property
    def drawn(self) -> int:
        """Number of training records, or of persons where these may have several: public."""
        return _drawn(self)


@dataclass(frozen=True, kw_only=True)
class Outline:
    """What is public of one owner's features and labels, wherever they are.

    Attributes:
        recipe: how the features were made; empty where nothing is known of it.
        columns: of the features.
        train: number of training records, or of persons where these may have several.
        held_out: number of held-out records.
    """

    recipe: Recipe
    columns: int
    train: int
    held_out: int

    def facts(self, rank: int) -> dict[str, int]:
        """Returns the sizes, by name, of the records that party `rank` holds."""
        return _facts(rank, self.train, self.held_out, self.columns)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Public sizes of all parties' records.

    Attributes:
        train: number of training records of each party, or of persons.
        test: number of held-out records of each party.
        features: columns.

    Raises:
        ArgumentError: not one number of each kind for every party, no record to train on, or a
            number below 0.
    """

    train: tuple[int, ...]
    test: tuple[int, ...]
    features: int

    def __post_init__(self) -> None:
        if len(self.train) != len(self.test):
            given = (len(self.train), len(self.test))
            allowed = "as many numbers of either"
            raise ArgumentError("records, held_out", given, allowed, code="shape")
        for name, least in (("train", 1), ("test", 0)):
            if min(getattr(self, name), default=-1) < least:
                allowed = f"records, at least {least} a party"
                raise ArgumentError(name, getattr(self, name), allowed, code="range")
        Whole(1).check("features", self.features)

    @property
    def parties(self) -> int:
        """Number of parties."""
        return len(self.train)

    @classmethod
    def of(cls, parts: Sequence[Split]) -> "Sizes":
        """Returns the sizes of each party's records."""
        return cls(
            train=tuple(part.drawn for part in parts),
            test=tuple(len(part.test_x) for part in parts),
            features=parts[0].train_x.shape[1],
        )

    def facts(self) -> dict[str, int]:
        """Returns the sizes by name, of every party."""
        facts: dict[str, int] = {}
        for rank, (train, test) in enumerate(zip(self.train, self.test, strict=True)):
            facts |= _facts(rank, train, test, self.features)
        return facts


def _drawn(split: RawSplit | Split) -> int:
    units = split.train_units
    return len(split.train_x) if units is None else len(np.unique(units))


def _facts(rank: int, train: int, test: int, features: int) -> dict[str, int]:
    return {
        f"training records of party {rank}": train,
        f"held-out records of party {rank}": test,
        "features": features,
    }
