"""Ranges stated where a value is declared: what they refuse, what they say, and whose numbers."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from extensions.rules import (
    NOT_NEGATIVE,
    PART,
    POSITIVE,
    Between,
    Each,
    Whole,
    check_fields,
    one_of,
)
from tests.helpers.refused import refused

Kind = Literal["a", "b"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    rate: Annotated[float, PART] = 0.5
    noise: Annotated[float | None, NOT_NEGATIVE] = None
    steps: Annotated[int | None, Whole(1, 9, hint="Few are enough.")] = None
    kind: Kind | None = "a"
    weights: Annotated[tuple[float, ...], Each(POSITIVE)] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        *(("rate", each, "range") for each in (0.0, 1.5, float("nan"), None, "1", 1j, True)),
        *(("noise", each, "range") for each in (-1.0, float("inf"), 10**400, False)),
        *(("steps", each, "range") for each in (0, 10, 2.0, "3", True)),
        *(("kind", each, "choice") for each in ("c", 1)),
        ("weights", (1.0, 0.0), "range"),
    ],
)
def test_a_value_that_breaks_its_rule_is_refused(name: str, value: Any, code: str):
    with refused(name, code, value):
        Settings(**{name: value})


def test_the_first_field_is_named_with_its_hint():
    with refused("steps", "range", 0) as caught:
        Settings(steps=0, kind="c")  # type: ignore[arg-type]
    assert caught.value.hint == "Few are enough."
    assert str(caught.value.rule) == "a whole number in 1..9"


def test_numbers_of_other_libraries_become_pythons():
    found = Settings(rate=np.float16(0.25), noise=np.int8(3), steps=np.uint8(7), kind=None)
    assert (found.rate, found.noise, found.steps) == (0.25, 3.0, 7)
    assert [type(each) for each in (found.rate, found.noise, found.steps)] == [float, float, int]
    assert type(Settings(rate=1).rate) is int


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (POSITIVE, "positive and finite"),
        (NOT_NEGATIVE, "finite, at least 0"),
        (PART, "in (0, 1]"),
        (Between(0.0, 1.0, below=True), "in [0, 1)"),
        (Between(2.0, above=True), "above 2"),
        (Between(0.0, 1.0, words="a share"), "a share"),
        (Whole(2), "a whole number of at least 2"),
        (Each(PART), "in (0, 1], each of them"),
        (one_of(Kind), "one of a, b"),
        (one_of(("a",)), "'a'"),
    ],
)
def test_a_rule_says_what_a_value_must_be(rule, words):
    assert str(rule) == words
