"""What values must be: stated where a value is declared, and checked by it.

A field says its range in its annotation, as ``steps: Annotated[int, Whole(1)]``, and `check_fields`
checks all of a dataclass. What is not in range is an `ArgumentError` whose rule is the range.
"""

import functools
import math
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from numbers import Complex, Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from extensions.errors import ArgumentError


@dataclass(frozen=True)
class Rule:
    """What a value must be; `str` of it says so behind "must be".

    Attributes:
        hint: of those that have no other.
    """

    code: ClassVar[str] = "range"
    hint: str = field(default="", kw_only=True)

    def holds(self, value: Any) -> bool:
        """Whether the value is so."""
        raise NotImplementedError

    def check(self, argument: str, value: Any, hint: str = "") -> None:
        """Raises ArgumentError unless the value is so."""
        if not self.holds(value):
            raise ArgumentError(argument, value, self, hint or self.hint)


@dataclass(frozen=True)
class Between(Rule):
    """A real number in a range.

    Attributes:
        most: its upper end; an infinite end is not in the range.
        above: whether the lower end is not in the range.
        below: whether the upper end is not.
        words: instead of "in (0, 1]".
    """

    least: float
    most: float = math.inf
    above: bool = False
    below: bool = False
    words: str = ""

    def holds(self, value: Any) -> bool:
        if not is_real(value):
            return False
        number = float(value)
        low = self.least < number if self.above else self.least <= number
        return (
            math.isfinite(number)
            and low
            and number <= self.most
            and (not self.below or number < self.most)
        )

    def __str__(self) -> str:
        if self.words:
            return self.words
        if math.isfinite(self.most):
            low, high = "[("[self.above], "])"[self.below]
            return f"in {low}{self.least:g}, {self.most:g}{high}"
        if self.above:
            return "positive and finite" if self.least == 0 else f"above {self.least:g}"
        return f"finite, at least {self.least:g}"


POSITIVE = Between(0.0, above=True)
NOT_NEGATIVE = Between(0.0)
PART = Between(0.0, 1.0, above=True)
"""A rate or a share of something: in (0, 1]."""


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number in a range.

    Attributes:
        words: instead of "at least 1".
    """

    least: int
    most: int | None = None
    words: str = ""

    def holds(self, value: Any) -> bool:
        """Whether the value is a whole number, and no float that equals one, in the range."""
        return (
            isinstance(value, Integral)
            and not isinstance(value, bool)
            and self.least <= int(value)
            and (self.most is None or int(value) <= self.most)
        )

    def __str__(self) -> str:
        if self.words:
            return self.words
        if self.most is None:
            return f"a whole number of at least {self.least}"
        return f"a whole number in {self.least}..{self.most}"


@dataclass(frozen=True)
class OneOf(Rule):
    """One of some names."""

    code: ClassVar[str] = "choice"
    names: Collection[Any]

    def holds(self, value: Any) -> bool:
        return value in self.names

    def __str__(self) -> str:
        if len(self.names) == 1:
            return repr(*self.names)
        return f"one of {', '.join(map(str, self.names))}"


def one_of(names: Any) -> OneOf:
    """Returns the rule of a `Literal`, or of names."""
    return OneOf(get_args(names) if get_origin(names) is Literal else tuple(names))


@dataclass(frozen=True)
class Each(Rule):
    """Several values, each of which keeps a rule."""

    one: Rule

    def holds(self, value: Any) -> bool:
        return all(map(self.one.holds, value))

    def __str__(self) -> str:
        return f"{self.one}, each of them"


def is_real(value: Any) -> bool:
    """Whether a value is a finite or infinite real number, whatever library it is of; no bool."""
    if isinstance(value, bool | str | bytes) or (
        isinstance(value, Complex) and not isinstance(value, Real)
    ):
        return False
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def check_fields(instance: Any) -> None:
    """Checks a dataclass's fields by the rules in their annotations.

    A `Literal` is the rule that a value is one of its names. None is allowed where the annotation
    has it. Numbers of other libraries become Python's: those of a narrow type would wrap around.
    """
    kind: Any = type(instance)
    for name, rule, optional in _rules(kind):
        value = getattr(instance, name)
        if value is not None or not optional:
            rule.check(name, value)
            if isinstance(rule, Between | Whole) and type(value) not in (int, float):
                own = int(value) if isinstance(rule, Whole) else float(value)
                object.__setattr__(instance, name, own)


@functools.cache
def _rules(kind: Any) -> list[tuple[str, Rule, bool]]:
    """The fields that have a rule, with it, and whether they may be None."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for each in fields(kind):
        hint, *marks = _parts(hints[each.name])
        inner = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        optional = NoneType in inner
        kinds = [_parts(part) for part in inner if part is not NoneType]
        marks += [mark for parts in kinds for mark in parts[1:]]
        if len(kinds) == 1 and get_origin(kinds[0][0]) is Literal:
            marks.append(one_of(kinds[0][0]))
        found += [(each.name, mark, optional) for mark in marks if isinstance(mark, Rule)]
    return found


def _parts(hint: Any) -> tuple[Any, ...]:
    """Returns a type and what it is annotated with."""
    return get_args(hint) if get_origin(hint) is Annotated else (hint,)
