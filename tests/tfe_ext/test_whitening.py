"""A session's whitening on ABY3: the program that builds the graph sums what owners masked."""

import numpy as np

from extensions.privacy.accounting import Ledger
from extensions.protocols.noisy_sums.second_moment import pack, second_moment, unit_rows
from extensions.protocols.noisy_sums.whitening import TITLE, WHITENING
from tests.helpers.owned_rows import owned_rows

TASK = "tests.helpers.tfe_tasks.whitening:opened"


def test_it_is_the_sum_over_all_servers_rows_and_servers_send_nothing(tfe_process):
    rows = owned_rows(7)
    whole = unit_rows(np.array([row for own in rows for row in own]), 2.0**20)
    expected = [part.tolist() for part in pack(second_moment(whole))]
    assert tfe_process.run(TASK, rows=rows, sigma=0.0) == [expected, 0]
    own = {f"server{i}": (np.array(each) / 2**20).tolist() for i, each in enumerate(rows)}
    found = tfe_process.run(f"{TASK.partition(':')[0]}:whitened", own=own, noise_multiplier=2.0)
    assert all(one != other for one, other in zip(found["parts"][0], expected[0], strict=True))
    assert found["ridge"] == 2.0
    np.testing.assert_allclose(found["norms"], 1.0, rtol=1e-9)
    ledger = Ledger.from_json(found["ledger"])
    assert [(p.name, p.noise_multiplier, p.steps) for p in ledger.phases] == [(WHITENING, 2.0, 1)]
    assert ledger.opened == [TITLE]
