"""With a sampling rate of 1 rows are shared once: what steps send, and which shares they use."""

import pytest

TASKS = "tests.helpers.tfe_tasks.standing"


def costs(tfe_process, rows, features, outputs, steps=0):
    sizes = {"n": rows, "features": features, "outputs": outputs}
    return tfe_process.run(f"{TASKS}:run", **sizes, steps=steps)


def test_steps_are_those_of_shared_records(tfe_process):
    """Of a step's 18 rounds a piece takes 16, and noise and update the others once."""
    rounds = tfe_process.run(f"{TASKS}:steps_are_those_of_shared_records")
    assert [*rounds] == [18, 18, 16 * 7 + 2]


@pytest.mark.parametrize("task", ["others_take_their_place", "shares_are_fresh"])
def test_shares_are_of_the_present_records_and_this_run(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")


@pytest.mark.parametrize(
    ("sizes", "rows", "pieces", "at_once", "empty"),
    [
        ((7, 2, 5), (7, 2, 5), 1, 9, False),
        ((7, 0, 5), (7, 1, 5), 1, 1000, False),
        ((7, 1, 5), (3, 1, 2), 3, 1000, False),
        ((8, 4, 6), (4, 2, 4), 2, 1000, True),
    ],
    ids=["blocks", "an owner without records", "pieces", "rows of persons"],
)
def test_pieces_are_slices_of_all_records(tfe_process, sizes, rows, pieces, at_once, empty):
    given = {"sizes": sizes, "rows": rows, "pieces": pieces, "at_once": at_once, "empty": empty}
    found, expected = tfe_process.run(f"{TASKS}:batches", **given)
    assert found == expected


def test_a_run_shares_rows_once_and_one_that_goes_on_once_more(tfe_process):
    """What the host counts is one sharing and the steps: a word of a record's 3 + 2 + 1 numbers."""
    first, second = costs(tfe_process, 30, 3, 2, steps=2)
    assert first == second
    assert [*first[0]] == [10 * 6 * 8] * 3
    assert [*first[2:]] == [1, 18]


def test_a_step_sends_no_rows(tfe_process):
    """12,000 rows of 1,024 features and 10 outputs: 42.7 MB a server, 66.2 once."""
    ((once, step, *rounds),) = costs(tfe_process, 12_000, 1_024, 10)
    assert [*once] == [33_120_000] * 3
    assert [*step] == [21_283_616, 21_283_616, 21_447_616]
    assert 2 * sum(step) / 3 < 44e6
    assert rounds == [2, 18]
