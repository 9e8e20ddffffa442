"""A script's whitening between CrypTen's parties: the sum over all of them, in one round."""

import math
import re
import sys
from typing import Any

import numpy as np
import pytest

from extensions.privacy.accounting import Ledger, epsilon
from extensions.protocols.noisy_sums.second_moment import pack, second_moment, unit_rows
from extensions.protocols.noisy_sums.whitening import TITLE, WHITENING, Whitening, ridge_of
from tests.conftest import Pools
from tests.helpers.owned_rows import owned_rows
from tests.helpers.wire import on_wire

TASK = "tests.helpers.party_tasks.whitening:opened"
COLUMNS = 60


def test_every_party_gets_the_sum_over_all_rows_in_one_opening(pools):
    """Each party sends its words to each other, in a message of one record of TLS."""
    rows = owned_rows(COLUMNS)
    parties = pools.run(3, TASK, rows=rows, sigma=0.0)
    whole = unit_rows(np.array([row for own in rows for row in own]), 2.0**20)
    expected = [part.tolist() for part in pack(second_moment(whole))]
    words = 8 * COLUMNS * (COLUMNS + 1) // 2
    for found, traffic in parties:
        assert found == expected
        assert traffic.rounds == 1
        if sys.platform == "linux":
            (carried,) = traffic.carried
            assert carried.sent == 2 * on_wire(words)
            assert carried.dealt == 0


def scripts(pools: Pools, own: list[Any], noises: list[float], **options: Any) -> list[Any]:
    """Returns what scripts get that whiten these rows, real numbers, with these noises."""
    each = [{"x": x, "noise_multiplier": noise} for x, noise in zip(own, noises, strict=True)]
    return pools.run(len(own), f"{TASK.partition(':')[0]}:whitened", per_party=each, **options)


@pytest.mark.parametrize("parties", [2, 3])
def test_a_script_whitens_by_what_all_parties_open_and_its_ledger_has_it(pools, parties):
    """Also where one of them has no records; with three the last one."""
    rows = owned_rows(4)[:2]
    own: list[Any] = [(np.array(each) / 2**20).tolist() for each in rows]
    own += [None] * (parties - 2)
    found = scripts(pools, own, [3.0] * parties)
    whole = unit_rows(np.array([row for each in rows for row in each]), 2.0**20)
    ridge = ridge_of(3.0, parties=parties, total=6, columns=4)
    for party, x in zip(found, own, strict=True):
        assert party["refused"] == ("", "")
        assert (
            party["parts"] == found[0]["parts"] != [p.tolist() for p in pack(second_moment(whole))]
        )
        assert party["rounds"] == 3
        assert party["ridge"] == ridge
        whitening = Whitening(parts=[*map(np.array, party["parts"])], ridge=ridge)
        if x is not None:
            np.testing.assert_allclose(party["rows"], whitening.rows(np.array(x)), rtol=1e-9)
        ledger = Ledger.from_json(party["ledger"])
        assert [(p.name, p.noise_multiplier, p.steps) for p in ledger.phases] == [
            (WHITENING, 3.0, 1)
        ]
        assert ledger.opened == [TITLE]
        assert party["epsilon"] == pytest.approx(
            epsilon(noise_multiplier=3.0, sample_rate=1.0, steps=1, delta=1e-5), rel=1e-9
        )
        (rows_of_batch, _), targets = party["batch"]
        assert targets == (rows_of_batch, 2)


@pytest.mark.parametrize(
    ("own", "noises", "told"),
    [
        ([[[2.0, 0.0, 0.0, 0.0]], [[0.5, 0.0, 0.0, 0.0]]], [3.0, 3.0], "features = 'row 0': data"),
        ([[[0.5] * 4], [[0.5] * 3]], [3.0, 3.0], r"rows of \[3, 4\] features"),
        ([[[0.5] * 4], [[0.5] * 4]], [3.0, 4.0], "noise_multiplier = 3 at party 0, 4 at party 1"),
        ([[[0.5] * 4], [[0.5] * 4]], [math.nan, 3.0], "noise_multiplier = 'nan' at party 0, 3 at"),
        ([[[0.5] * 4], [[0.5] * 4]], [0.0, 0.0], "sigma = 0.0:"),
        ([None, None], [3.0, 3.0], "x = None: missing"),
        ([[[0.5] * 4, [0.5]], [[0.5] * 4]], [3.0, 3.0], "x = 'list':"),
        ([[[0.5] * 4], [[0.5] * 4]], [-1.0, -1.0], "noise_multiplier = -1.0:"),
    ],
)
def test_a_script_is_told_what_does_not_fit_and_charged_nothing(pools, own, noises, told):
    for rank, party in enumerate(scripts(pools, own, noises)):
        kind, message = party["refused"]
        assert kind == "ArgumentError"
        assert re.search(told, message) or (rank == 1 and "party 0" in message)
        assert party["ledger"] == Ledger().to_json()
