"""Every claim that a page marks has a test, and every test's claim stands on a page."""

from tests.helpers import claims


def test_every_mark_of_a_page_is_of_a_claim_that_a_test_holds():
    texts = claims.marked().values()
    held = [f"{sentence} {claims.MARK}" for sentence in claims.claims()]
    assert all(any(one in text for text in texts) for one in held)
    marks = sum(text.count(claims.MARK) for text in texts)
    assert marks == sum(text.count(one) for text in texts for one in held) > 30


def test_the_page_is_that_of_the_tests():
    assert claims.page() == claims.PAGE.read_text()
