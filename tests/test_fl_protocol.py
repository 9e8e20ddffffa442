"""Messages, machines and the in-process transport; the plain aggregator on them."""

import numpy as np
import pytest

import fl
from extensions.errors import RoundError


def updates(clients: int, size: int = 5) -> dict[int, fl.Vector]:
    draws = np.random.default_rng(clients).normal(size=(clients, size))
    return {k: row.astype(np.float32).astype(np.float64) for k, row in enumerate(draws)}


def test_plain_mean_is_weighted_by_records():
    given = updates(3)
    outcome = fl.aggregate(fl.PlainAggregator(), given, {0: 1, 1: 2, 2: 5})
    expected = (given[0] + 2 * given[1] + 5 * given[2]) / 8
    np.testing.assert_allclose(outcome.aggregate.mean, expected, rtol=1e-15)
    assert outcome.included == (0, 1, 2)
    assert outcome.refusals == ()


@pytest.mark.parametrize(("when", "lost"), [("before", True), ("after", False)])
def test_client_that_vanishes_is_left_out_by_name_once_time_is_up(when, lost):
    transport = fl.InProcessTransport(drop_outs=[fl.DropOut(1, "update", when)])
    given = updates(3)
    outcome = fl.aggregate(fl.PlainAggregator(timeout=7.0), given, transport=transport)
    assert outcome.vanished == (1,)
    assert outcome.included == ((0, 2) if lost else (0, 1, 2))
    assert outcome.refusals == ((fl.Refusal(1, "no update within 7 s"),) if lost else ())
    assert outcome.seconds == (7.0 if lost else 0.0)


def test_round_without_clients_fails_and_names_them():
    drop_outs = [fl.DropOut(0, "update"), fl.DropOut(1, "update")]
    with pytest.raises(RoundError, match=r"round 1: .* client 0: no update .* client 1: no update"):
        fl.aggregate(
            fl.PlainAggregator(), updates(2), transport=fl.InProcessTransport(drop_outs=drop_outs)
        )
