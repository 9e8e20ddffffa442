"""Counts over records that come block by block are those over all of them."""

import pytest


@pytest.mark.parametrize(
    ("at_once", "rows"),
    [(100, [12]), (6, [5, 2]), (4, [3, 3])],
    ids=["one block", "two and a record of each", "three and what is left"],
)
def test_blocks_add_up_to_the_whole_in_two_graphs(tfe_process, at_once, rows):
    found = tfe_process.run("tests.helpers.tfe_tasks.totals:total", at_once=at_once)
    assert found["rows"] == rows
    assert found["found"] == found["expected"]
