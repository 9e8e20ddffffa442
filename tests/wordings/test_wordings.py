"""Words change in the snapshot, and nowhere else."""

from tests.wordings import SNAPSHOT, wordings


def test_words_are_those_of_the_snapshot():
    """`python -m tests.wordings` renews it."""
    kept, found = set(SNAPSHOT.read_text().splitlines()), set(wordings())
    assert sorted(found - kept) == [], "new words: python -m tests.wordings"
    assert sorted(kept - found) == [], "words that are gone: python -m tests.wordings"
