"""A session's whitening on ABY3: the program that builds the graph sums what owners masked."""

import numpy as np

from extensions.protocols.sums.gram import gram, pack, unit_rows
from tests.helpers.owned_rows import owned_rows

TASK = "tests.helpers.tfe_tasks.whitening:opened"


def test_it_is_the_sum_over_all_servers_rows_and_servers_send_nothing(tfe_process):
    rows = owned_rows(7)
    whole = unit_rows(np.array([row for own in rows for row in own]), 2.0**20)
    expected = [part.tolist() for part in pack(gram(whole))]
    assert tfe_process.run(TASK, rows=rows, sigma=0.0) == [expected, 0]
    noisy, _ = tfe_process.run(TASK, rows=rows, sigma=2.0)
    assert all(one != other for one, other in zip(noisy[0], expected[0], strict=True))
