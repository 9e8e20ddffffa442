"""Batches in pieces on ABY3: the same steps, and exactly so many more rounds."""

TASKS = "tests.helpers.tfe_tasks.pieces"
PIECES = 7
"""Of 60 rows, 9 or so at once."""


def test_pieces_make_the_step(tfe_process):
    """Of a linear step's 19 rounds a piece takes 17, and noise and update the others once.

    Of 60 rows each owner's 20 become 21, 3 in a piece; what depends on no row goes with each.
    """
    whole, rounds, *carried, outside = tfe_process.run(f"{TASKS}:pieces_make_the_step")
    assert (whole, rounds) == (19, 17 * PIECES + 2)
    assert outside == 0
    before, after = (sum(own[0] for own in servers) for servers in carried)
    assert 21 / 20 < after / before < 1.25


def test_wrong_pieces_are_refused(tfe_process):
    tfe_process.run(f"{TASKS}:wrong_pieces_are_refused")
