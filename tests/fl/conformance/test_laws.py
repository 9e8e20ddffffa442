"""What every aggregator is held to, each law once over all arenas."""

import re

import numpy as np
import pytest

import fl
from extensions.errors import RoundError
from fl.leakage import vectors_sent
from fl.simulation import DropOut
from fl.weights import get_weights
from tests.fl.conformance.arenas import (
    ARENAS,
    CLIENTS,
    LOST,
    SIZE,
    SOMETIMES,
    cases,
    check_mean,
    perform,
    sends,
    updates,
)
from tests.fl.training.test_federated import small
from tests.helpers.refused import refused

NAMES = pytest.mark.parametrize("name", ARENAS)
SPARSE_BYTES = ("sparse", "lanes")
"""Their clients get as many keys as they draw, which differs."""


@NAMES
def test_the_mean_is_that_of_all_clients_each_weighed_as_it_is_announced(name):
    arena = ARENAS[name]
    given = updates(arena)
    outcome = perform(arena, given)
    assert outcome.included == tuple(range(CLIENTS))
    assert outcome.refusals == outcome.vanished == ()
    check_mean(arena, given, outcome)


@NAMES
def test_more_values_cost_the_bytes_that_are_stated(name):
    """Beside lengths of arrays, and what clients draw."""
    arena, more = ARENAS[name], 4400
    sizes = [
        sum(
            e.size
            for e in perform(arena, updates(arena, size)).transcript
            if e.message.kind != "model"
        )
        for size in (2200, 2200 + more)
    ]
    wanted = arena.grows(more)
    if np.isfinite(wanted):
        assert abs(sizes[1] - sizes[0] - wanted) <= (2000 if name in SPARSE_BYTES else 60)


@pytest.mark.parametrize(("name", "stage"), cases("lost"))
def test_clients_that_vanish_at_a_stage_cost_their_own_updates_at_most(name, stage):
    arena, (kind, when) = ARENAS[name], stage
    given, said = updates(arena), arena.lost[stage]
    for lost in [(arena.clients[stage],)] if stage in arena.clients else LOST:
        outcome = perform(arena, given, drop_outs=[DropOut(k, kind, when) for k in lost])
        check_mean(arena, given, outcome)
        reasons = {refusal.client: refusal.reason for refusal in outcome.refusals}
        if said == SOMETIMES:
            assert set(reasons) | set(outcome.included) == set(given)
            assert set(reasons) <= set(lost) or name == "chains"
            assert when == "before" or not reasons or name != "chain"
            continue
        assert outcome.vanished == lost
        assert reasons == ({} if said is None else dict.fromkeys(lost, said))
        assert outcome.included == tuple(k for k in given if said is None or k not in lost)


@NAMES
def test_a_round_of_one_client_that_is_left_fails_and_names_the_others(name):
    arena = ARENAS[name]
    first, *_ = arena.lost
    alone = {"plain": "update", "signds": "update"}.get(name, first[0])
    lost = range(CLIENTS) if alone == "update" else range(1, CLIENTS)
    with pytest.raises(RoundError) as caught:
        perform(arena, updates(arena), drop_outs=[DropOut(k, alone) for k in lost])
    assert set(caught.value.refused) == set(lost)


@pytest.mark.parametrize(
    ("name", "place"), [(n, k) for n, own in ARENAS.items() for k in range(len(own.forged))]
)
def test_a_forged_message_costs_its_sender_alone_the_place_by_name(name, place):
    arena = ARENAS[name]
    kind, change, reason = arena.forged[place]
    given = updates(arena)
    outcome = perform(arena, given, sends(2, kind, change))
    (refusal,) = outcome.refusals
    assert refusal.client == 2
    assert re.search(reason, refusal.reason)
    assert outcome.included == tuple(k for k in given if k != 2)
    check_mean(arena, given, outcome)


@NAMES
def test_rounds_that_would_show_an_update_or_overflow_are_refused_before_they_begin(name):
    aggregator = ARENAS[name].make()
    if aggregator.min_clients > 1:
        with refused("clients of a round", "range", 1):
            aggregator.check_weights([1])
    if aggregator.fixed_point is not None:
        with refused("frac_bits", "range", aggregator.fixed_point.frac_bits):
            aggregator.check_weights([2**50, 1, 1, 1])


@NAMES
def test_what_the_server_alone_reads_as_it_comes_is_what_leaks_to_says(name):
    arena = ARENAS[name]
    given = updates(arena)
    outcome = perform(arena, given)
    alone = fl.Coalition(server=True)
    stated = arena.make().leaks_to(alone, outcome)
    for client, update in given.items():
        rows = vectors_sent(outcome.transcript.view(alone), client, SIZE)
        read = any(np.abs(row - update).max() < 1e-6 for row in rows)
        assert read == (frozenset({client}) in stated)
    members = fl.Coalition(range(CLIENTS - 1))
    assert frozenset({CLIENTS - 1}) in arena.make().leaks_to(members, outcome) or name == "hidden"


@pytest.mark.parametrize("name", [name for name in ARENAS if name != "signds"])
@pytest.mark.parametrize("weighting", ["records", "equal"])
def test_training_is_that_of_the_plain_aggregator(name, weighting):
    """Up to half a unit of 2^-16 in two rounds, and what their steps make of it."""
    models = []
    for aggregator in (fl.PlainAggregator(), ARENAS[name].make()):
        run = small(aggregator=aggregator, client_fraction=1.0, weighting=weighting)
        run.fit(2, progress=False)
        models.append(get_weights(run.model))
    np.testing.assert_allclose(*models, atol=2.0**-14)
