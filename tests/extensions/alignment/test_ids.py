"""Ids as all owners write them: what is one person, what is refused with its row."""

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from extensions.alignment import ids_of
from extensions.alignment.ids import Outline
from extensions.errors import ArgumentError
from tests.helpers.refused import refused

ALIKE = {
    ("text", "Müller"): ["müller", "MÜLLER", "Mu\u0308ller", "  Müller\t", "Ｍüller"],
    ("text", "Straße"): ["STRASSE", "strasse", "StraSSe"],
    ("text", "ﬁsh-²"): ["fish-2", "FISH-2"],
    ("text", "ab 12"): ["AB 12", "ab\u00a012"],
    ("digits", "041-23 45.67"): ["0412 345 67", "(0412) 34567", "０４１２３４５６７", "٠٤١٢٣٤٥٦٧"],
    ("date", "1970-12-31"): ["31.12.1970", "19701231", "1970/12/31", "1970-12-31 00:00:00"],
    ("date", "2001-02-03"): ["3.2.2001", "03.02.2001", "2001-02-03T00:00:00.000"],
}
DIFFERENT = {
    "text": ["7", "07", "a b", "ab", "a-b", "é", "e", "1.234.567", "1e", "0x1e5"],
    "digits": ["7", "07", "70", "700"],
    "date": ["1970-01-02", "2.1.1971", "1970-02-01"],
}
REFUSED = {
    "text": ["", "  ", "\u00a0", "NA", "none", "12345.0", "1e5", "1.5E+17", "-3.", ".5", "a\x1fb"],
    "digits": ["", "abc", "12345.0", "1E5", "n/a"],
    "date": ["", "1970", "31/12/1970", "1970-13-01", "30.2.1970", "1970-12-31 10:00", "1e5"],
}


def listed(*cells, form="text"):
    return ids_of([cells], [form])


@pytest.mark.parametrize(("form", "text"), ALIKE)
def test_what_is_written_in_several_ways_is_one_person(form, text):
    (own,) = listed(text, form=form).digests
    for other in ALIKE[form, text]:
        assert listed(other, form=form).digests[0] == own, other
        with refused("id", "data", "records 1 and 2"):
            listed(text, other, form=form)


@pytest.mark.parametrize("form", DIFFERENT)
def test_what_is_different_stays_so(form):
    texts = DIFFERENT[form]
    assert np.unique(listed(*texts, form=form).digests).size == len(texts)


@pytest.mark.parametrize(("form", "text"), [(f, t) for f, each in REFUSED.items() for t in each])
def test_what_is_no_id_is_refused_with_its_row(form, text):
    good = {"text": "a", "digits": "1", "date": "1970-01-01"}[form]
    with refused("id", "data", "record 2"):
        listed(good, text, form=form)


def test_all_that_occurs_again_is_counted_and_two_records_are_named():
    with refused("id", "data") as caught:
        listed("x", "a", "b", "A", "c", "B", "a ")
    first, second, others = map(int, re.findall("[0-9]+", f"{caught.value.value}"))
    assert others == 1
    assert (first, second) in {(2, 4), (2, 7), (4, 7), (3, 6)}


def test_columns_do_not_run_into_each_other():
    one = ids_of([["ab", "a"], ["c", "bc"]], ["text", "text"])
    assert one.digests[0] != one.digests[1]
    dated = [ids_of([["Ann"], [day]], ["text", "date"]) for day in ("1970-01-02", "2.1.1970")]
    assert dated[0].digests[0] == dated[1].digests[0]
    assert dated[0].outline.formats == ["text", "date"]


@given(st.text(min_size=1, max_size=8))
def test_writing_an_id_as_all_do_changes_it_once(text):
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()
    try:
        own = listed(text)
    except ArgumentError:
        assume(False)
    assert listed(folded).digests[0] == own.digests[0]
    assert listed(f" {text}\n").digests[0] == own.digests[0]


def test_the_digest_of_a_list_is_that_of_its_persons():
    assert listed("a", "b").digest == listed("B", "a").digest != listed("a", "c").digest


OUTLINES = {
    ("12345", "1234567"): (1.0, 4, 8),
    ("12345", "ab"): (0.5, 0, 8),
    ("abcd", "efghi"): (0.0, 4, 8),
    (): (1.0, 0, 0),
}


@pytest.mark.parametrize("cells", OUTLINES)
def test_an_outline_tells_kind_and_rounded_lengths(cells):
    assert listed(*cells).outline == Outline(["text"], *OUTLINES[cells])


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        (("12345",), ("abcde",), False),
        (("12345",), ("abcde", "1"), True),
        (("12345678",), ("123456789",), True),
        (("1234567",), ("123456789",), True),
        (("123",), ("123456789",), False),
        (("123",), (), True),
    ],
)
def test_lists_that_can_have_nobody_in_common_are_found(one, other, may):
    """And never others: lengths are rounded outwards."""
    outlines = listed(*one).outline, listed(*other).outline
    assert outlines[0].may_meet(outlines[1]) is outlines[1].may_meet(outlines[0]) is may


@given(*[st.lists(st.text("0a", min_size=1, max_size=14), min_size=1, unique=True)] * 2)
def test_lists_with_somebody_in_common_may_meet(one, other):
    other = [*{*other, one[0]}]
    assert listed(*one).outline.may_meet(listed(*other).outline)


def test_formats_must_be_equal():
    one, other = listed("1", form="digits").outline, listed("1").outline
    assert not one.may_meet(other)
