"""Documents, help and errors read well: short sentences, few of them long, few negations."""

from pathlib import Path

import pytest

from tests.house.words import OF_ERRORS, ROOT, documents, measure, of_code, sentences


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_reads_well(path: Path):
    measures = measure(path.read_text())
    assert measures.reads_well, measures


def test_what_the_code_says_reads_well():
    for name, measures in of_code().items():
        assert measures.reads_well, (name, measures)


def test_prose_alone_is_counted():
    text = """# A heading
Say *you*, for example `x = 1`. It isn't
long, and [ends](https://example.org/a.b) here!

- One item
- Another item, e.g. this

| no | table |

```sh
no code
```
"""
    assert sentences(text) == [
        "Say *you*, for example code",
        "It isn't long, and ends here",
        "One item",
        "Another item, e.g. this",
    ]
    measures = measure(text)
    assert (measures.words, measures.median, measures.long) == (18, 5, 0)
    assert round(measures.negations * measures.words) == 1000


def test_what_is_too_long_or_says_no_too_often_is_found():
    plain = "You give each party its own file. " * 20
    assert measure(plain).reads_well
    assert not measure(plain.replace(". ", " and ")).reads_well
    denied = plain.replace("its own", "no")
    assert not measure(denied).reads_well
    assert not measure(denied, OF_ERRORS).reads_well
    mixed = plain + "You give " + "each party " * 15 + "its file. "
    assert measure(mixed).long == pytest.approx(100 / 21)
    assert not measure(mixed + mixed[-180:] * 2).reads_well
