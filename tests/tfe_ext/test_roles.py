"""Much work is divided among servers in each of their roles: the same results, and even links."""

TASKS = "tests.helpers.tfe_tasks.roles"


def is_even(words, factor=1.03):
    return max(words) < factor * min(words)


def test_functions_of_many_elements_load_servers_evenly(tfe_process):
    """Undivided, server 2 sends three quarters, and servers 0 and 1 receive them."""
    (whole, sent, received), (divided, evenly, got) = tfe_process.run(f"{TASKS}:functions")
    assert whole == divided == 13
    assert max(sent) > 0.7 * sum(sent)
    assert is_even(received[:2], 1.6)
    assert received[2] < 0.01 * sum(received)
    assert is_even(evenly)
    assert is_even(got)
    assert sum(sent) <= sum(evenly) < 1.01 * sum(sent)


def test_steps_of_many_rows_load_servers_evenly(tfe_process):
    """In pieces as well; noise and update, of the parameters alone, are not divided."""
    whole, divided, pieces = tfe_process.run(f"{TASKS}:steps")
    assert whole[0] == divided[0] == 18
    assert pieces[0] == 2 * 16 + 2
    assert max(whole[1]) > 0.6 * sum(whole[1])
    for _, sent, received in (divided, pieces):
        assert is_even(sent)
        assert is_even(received)
        assert sum(whole[1]) <= sum(sent) < 1.02 * sum(whole[1])


def test_shares_turn(tfe_process):
    tfe_process.run(f"{TASKS}:shares_turn")
