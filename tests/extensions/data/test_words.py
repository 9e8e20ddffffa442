"""Words by public columns and weights, against their column after a negation."""

import math
import sys

import numpy as np
import pytest

from extensions.data.datasets import Split
from extensions.data.features import extract, find
from extensions.data.features.texts.words import read_vocabulary, signed_counts
from extensions.errors import MissingExtraError
from tests.helpers.refused import refused

SENTENCES = [
    ("A good film.", {"a": 1, "good": 1, "film": 1}),
    ("not a very good film", {"not": 1, "a": -1, "very": -1, "good": -1, "film": 1}),
    ("not a very, very good film", {"not": 1, "a": -1, "very": 0, "good": 1, "film": 1}),
    ("It isn't good, it's bad", {"it": 1, "isn't": 1, "good": -1, "it's": 1, "bad": 1}),
    ("It ISN’T good", {"it": 1, "isn't": 1, "good": -1}),
    ("never<br /><br />good", {"never": 1, "good": 1}),
    ("no good (good)", {"no": 1, "good": 0}),
    ("not not good one two three", {"not": 0, "good": -1, "one": -1, "two": -1, "three": 1}),
    ("a knot, nothing well-made", {"a": 1, "knot": 1, "nothing": 1, "well": -1, "made": -1}),
    ("without end: good", {"without": 1, "end": -1, "good": 1}),
    ("", {}),
    ("'tis 10/10 -- çà_et!", {"tis": 1, "10": 2, "çà": 1, "et": 1}),
]


@pytest.mark.parametrize(("text", "counts"), SENTENCES, ids=[text for text, _ in SENTENCES])
def test_a_negation_turns_three_words_round_up_to_a_mark(text, counts):
    assert dict(signed_counts(text)) == counts


LIST = {"the": 0.05, "good": 8e-4, "film": 4e-4, "awful": 2e-5, "xylem": 1e-7, "bad": 8e-4}
VALENCES = {"good": 1.9, "bad": -2.5, "awful": -2.0, "absent": 4.0}


@pytest.fixture
def listed(monkeypatch):
    """Six words of made-up frequencies, and the valences of three."""
    pytest.importorskip("wordfreq")
    monkeypatch.setattr("wordfreq.get_frequency_dict", lambda *_, wordlist: dict(LIST))
    where = "extensions.data.features.texts.words._valences"
    monkeypatch.setattr(where, lambda: VALENCES)


def weight_of(word: str) -> float:
    return -math.log(1.0 - (1.0 - LIST[word]) ** 230 + 3e-4)


def test_columns_are_in_the_order_of_what_they_are_worth(listed, monkeypatch):
    def worth(word: str) -> float:
        share = 1.0 - (1.0 - LIST[word]) ** 230
        return share * weight_of(word) ** 2 * (1.0 + abs(VALENCES.get(word, 0.0)))

    words = read_vocabulary(9)
    assert list(words.columns) == sorted(LIST, key=worth, reverse=True)
    assert list(words.columns) == ["bad", "good", "film", "awful", "xylem", "the"]
    assert list(words.columns.values()) == list(range(6))
    np.testing.assert_allclose(words.weights, [weight_of(word) for word in words.columns])
    assert list(read_vocabulary(2).columns) == ["bad", "good"]
    assert read_vocabulary(2).digest != words.digest
    others = {"xylem": 2e-7}
    monkeypatch.setattr("wordfreq.get_frequency_dict", lambda *_, wordlist: LIST | others)
    other = read_vocabulary(9)
    assert other.columns == words.columns
    assert other.digest != words.digest


def test_words_worth_the_same_are_in_alphabetical_order(listed, monkeypatch):
    names = ["d", "b", "c", "a"]
    monkeypatch.setattr(
        "wordfreq.get_frequency_dict", lambda *_, wordlist: dict.fromkeys(names, 1e-5)
    )
    assert list(read_vocabulary(3).columns) == ["a", "b", "c"]


def test_a_column_is_its_damped_count_times_the_words_weight(listed):
    extractor = find("words:4")
    assert extractor.identity["scope"] == "3"
    texts = ["good good film", "not good. good, never good; film bad", "the xylem", ""]
    rows = extractor.function(np.array(texts, dtype=object))
    bad, good, film = (weight_of(word) for word in ("bad", "good", "film"))
    expected = [
        [0.0, good * (1.0 + math.log(2.0)), film, 0.0],
        [bad, -good, film, 0.0],
        [0.0] * 4,
        [0.0] * 4,
    ]
    np.testing.assert_allclose(rows, expected, rtol=1e-6)


def test_the_public_lists_give_these_columns():
    """Found with wordfreq 3.1.1 and vaderSentiment 3.3.2, which change their lists no more."""
    pytest.importorskip("wordfreq")
    words = read_vocabulary(4096)
    assert list(words.columns)[:8] == FIRST
    assert words.digest == DIGEST
    assert {"boring", "wonderful", "worst", "plot"} <= words.columns.keys()
    assert read_vocabulary(64).columns == dict(list(words.columns.items())[:64])


FIRST = ["love", "best", "great", "war", "heart", "killed", "death", "shit"]
DIGEST = "0b83d82cf384966caa215156d1c3be706dbf91209d86116d834724fe50811446"


def test_rows_are_of_norm_one_whatever_other_texts_there_are():
    pytest.importorskip("wordfreq")
    texts = np.array(["a fine film", "not dull, not bad", "qqzzx", "", "war " * 99], dtype=object)
    extractor = find("words:512")

    def rows(x: np.ndarray) -> np.ndarray:
        y = np.zeros(len(x), dtype=np.int64)
        return extract(Split(train_x=x, train_y=y, test_x=x[:1], test_y=y[:1]), extractor).train_x

    together = rows(texts)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), [1, 1, 0, 0, 1], rtol=1e-12)
    for place, row in enumerate(together):
        np.testing.assert_array_equal(rows(texts[place : place + 1])[0], row)
    np.testing.assert_array_equal(rows(texts[::-1]), together[::-1])


@pytest.mark.parametrize("module", ["wordfreq", "vaderSentiment"])
def test_a_list_that_is_not_installed_is_named(module, monkeypatch):
    pytest.importorskip("wordfreq")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"^{module} is .*'\.\[features\]'"):
        find("words")


@pytest.mark.parametrize("argument", ["", "0", "-1", "x", "16385", "1.5"])
def test_another_number_of_columns_is_refused(argument):
    with refused("features", "range", f"words:{argument}"):
        find(f"words:{argument}")
