"""Counts over records that come block by block are those over all of them."""

import pytest


@pytest.mark.parametrize(
    ("blocks", "rows"),
    [(1, [12]), (2, [5, 2]), (3, [3, 3])],
    ids=["one block", "two and a record of each", "three and what is left"],
)
def test_blocks_add_up_to_the_whole_in_two_graphs(tfe_process, blocks, rows):
    found = tfe_process.run("tests.helpers.tfe_tasks.totals:total", blocks=blocks)
    assert found["rows"] == rows
    assert found["found"] == found["expected"]


def test_models_are_evaluated_in_blocks(tfe_process):
    tfe_process.run("tests.helpers.tfe_tasks.totals:evaluated")
