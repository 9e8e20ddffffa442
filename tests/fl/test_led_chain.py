"""Chains that a client leads, lists of neighbours, and the time for so many to take part."""

import itertools

import numpy as np
import pytest

import fl
from extensions.errors import RoundError
from fl.chain.led import leader_of
from fl.leakage import running_sums
from fl.protocols import SERVER, Message, Round, Vector, aggregate
from fl.round.latency import time_limit
from fl.simulation import DropOut, InProcessTransport, Link, Network, neighbours
from tests.helpers.refused import refused

CLIENTS, SIZE = 6, 20


def updates(clients: int = CLIENTS, size: int = SIZE) -> dict[int, Vector]:
    draws = np.random.default_rng(clients)
    return {k: draws.uniform(-1, 1, size) for k in range(clients)}


def led(**options: object) -> fl.ChainAggregator:
    return fl.ChainAggregator(led_by="client", timeout=5.0, **options)


@pytest.mark.parametrize("number", [1, 2, 5, 6])
@pytest.mark.parametrize("chains", [1, 2])
def test_mean_is_exact_whoever_leads_and_everybody_has_it(number, chains):
    given = updates()
    weights = {k: k + 1 for k in given}
    outcome = aggregate(led(chains=chains), given, weights, number=number)
    expected = sum(weights[k] * given[k] for k in given) / 21
    assert outcome.included == tuple(given)
    np.testing.assert_allclose(outcome.aggregate.mean, expected, atol=2.0**-24)
    leader = number % CLIENTS
    means = [e.message for e in outcome.transcript if e.message.kind == "mean"]
    assert {(m.sender, m.receiver) for m in means} == {
        (leader, k) for k in (*given, SERVER) if k != leader
    }
    for message in means:
        np.testing.assert_array_equal(message.body["values"], outcome.aggregate.mean)
    to_server = {m.kind for m in outcome.transcript.view(fl.Coalition(server=True))}
    assert to_server == {"mean"}, "the server has no key, mask or report"


def test_bytes_are_those_of_a_chain_and_a_mean_for_everybody():
    given = updates(size=1000)
    with_server = aggregate(fl.ChainAggregator(), given).transcript.bytes()
    found = {aggregate(led(), given, number=n).transcript.bytes() for n in range(1, 30)}
    means = CLIENTS * 8000
    # The leader's own hops and reports cost nothing: up to two sums of 8,000 bytes less.
    assert all(with_server + means - 2 * 8200 - 1500 < total for total in found)
    assert max(found) < with_server + means + 1500


def failure(kind: str, number: int) -> str:
    """Returns why a round fails whose leader vanishes before it sends that kind, if it does."""
    gone = InProcessTransport(drop_outs=[DropOut(number % CLIENTS, kind)])
    try:
        aggregate(led(time_limit=50.0), updates(), number=number, transport=gone)
    except RoundError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["lead.chain", "lead.token", "mean"])
def test_round_whose_leader_is_lost_names_it_and_the_next_one_has_another(kind):
    given = updates()
    fails = ((number, failure(kind, number)) for number in range(1, 30))
    number, said = next((number, why) for number, why in fails if why)
    assert f"client {number % CLIENTS}, who leads the round, sent no mean" in said
    assert (
        leader_of(Round(number=number + 1, size=1, weights=dict.fromkeys(given, 1)))
        == (number + 1) % CLIENTS
    )


@pytest.mark.parametrize("chains", [1, 2])
def test_a_leader_that_cannot_go_on_tells_why(chains):
    others = [client for client in range(CLIENTS) if client != 1]
    lost = [DropOut(k, kind) for k in others for kind in ("token", "lead.sum", "lead.passed")]
    gone = InProcessTransport(drop_outs=lost)
    with pytest.raises(RoundError) as caught:
        aggregate(led(chains=chains), updates(), number=1, transport=gone)
    assert "no chain returned" in caught.value.reason
    assert set(caught.value.refused) >= set(others)


def test_what_the_leader_and_one_client_know_is_what_leaks_to_says():
    """Single updates that follow from the leader's masks and what both saw."""
    given = updates()
    ours, seen_alone = led(), set()
    for number in range(1, 25):
        outcome = aggregate(ours, given, number=number)
        leader = number % CLIENTS
        assert ours.leaks_to(fl.Coalition(server=True), outcome) == {frozenset(given)}
        for other in set(given) - {leader}:
            coalition = fl.Coalition({leader, other})
            leaks = ours.leaks_to(coalition, outcome)
            for victim in set(given) - {leader, other}:
                view = outcome.transcript.view(coalition)
                rows = running_sums(view, victim, SIZE)
                own = [
                    sum(s)
                    for n in range(3)
                    for s in itertools.combinations([given[leader], given[other]], n)
                ]
                read = any(
                    np.abs(row - part - given[victim]).max() < 2.0**-20
                    for row in rows
                    for part in own
                )
                if read:
                    assert frozenset({victim}) in leaks
                    seen_alone.add(number)
    assert seen_alone, "some coalitions read an update"


def test_leader_that_is_first_on_its_chain_knows_the_mask_that_nobody_sent():
    given = {0: np.ones(4), 1: np.full(4, 2.0), 2: np.full(4, 3.0)}
    ours = led()
    for number in range(1, 60):
        outcome = aggregate(ours, given, number=number)
        leader = number % 3
        issued = [e.message for e in outcome.transcript if e.message.kind == "lead.token"]
        (back,) = [e.message for e in outcome.transcript if e.message.kind == "lead.sum"] or [None]
        if not issued and back is not None:
            users = back.body["users"].tolist()
            assert users[0] == leader
            after = fl.Coalition({leader, users[2]})
            assert ours.leaks_to(after, outcome) == {frozenset({users[1]})}
            return
    pytest.fail("no leader was first of its chain")


def test_server_cannot_play_the_leader():
    """Words of the server that a leader would say are no words of the leader."""
    round = Round(number=1, size=4, weights=dict.fromkeys(range(3), 1))
    client = led().client(round, 0, np.ones(4))
    by_server = fl.ChainAggregator().server(round)
    words = [m for m in by_server.start(0.0) if isinstance(m, Message) and m.receiver == 0]
    assert any(m.kind == "chain" for m in words)
    for message in words:
        assert list(client.receive(message, 0.0)) == []
    assert not client._own._announced


def test_edge_nodes_and_unknown_leaders_are_refused():
    with refused("edges", "range", 1):
        led(chains=2, edges=1)
    with refused("led_by", "choice", "me"):
        fl.ChainAggregator(led_by="me")


# --- neighbours, and time -------------------------------------------------------------------------


def test_lists_of_flooding_cells_and_peers():
    line = {k: [j for j in (k - 1, k + 1) if 0 <= j < 6] for k in range(6)}
    assert neighbours.flooded(line, 1)(2) == {1, 3}
    assert neighbours.flooded(line, 2)(2) == {0, 1, 3, 4}
    assert neighbours.flooded(line, 9)(0) == {1, 2, 3, 4, 5}
    assert neighbours.of_neighbours(line)(5) == {3, 4}
    places = {k: (float(k * k), 0.0) for k in range(5)}
    assert neighbours.nearest(places, 2)(3) == [2, 4]
    assert neighbours.nearest({0: (0, 0), 1: (1, 0), 2: (-1, 0)}, 1)(0) == [1]


@pytest.mark.parametrize(
    ("make", "argument", "value", "code"),
    [
        (lambda: neighbours.flooded({0: [1], 1: [0]}, 0), "hops", 0, "range"),
        (lambda: neighbours.flooded({0: [7]}, 1), "links", [7], "value"),
        (lambda: neighbours.nearest({0: (0, 0), 1: (1, 1)}, 2), "number", 2, "range"),
    ],
)
def test_lists_that_name_nobody_are_refused(make, argument, value, code):
    with refused(argument, code, value=value):
        make()


def test_chain_on_a_line_reaches_the_clients_on_one_side():
    line = {k: [j for j in (k - 1, k + 1) if 0 <= j < CLIENTS] for k in range(CLIENTS)}
    given = updates()
    ours = fl.ChainAggregator(neighbours=neighbours.flooded(line, 1))
    for _ in range(10):
        outcome = aggregate(ours, given)
        first, *_ = [e.message.receiver for e in outcome.transcript if e.message.kind == "token"]
        below, above = tuple(range(first + 1)), tuple(range(first, CLIENTS))
        assert outcome.included in (below, above)
        assert {refusal.client for refusal in outcome.refusals} == set(given) - set(
            outcome.included
        )


@pytest.mark.parametrize("number", [2, 3, 7, 12])
@pytest.mark.parametrize("delay", [0.0001, 0.02])
def test_as_many_take_part_as_the_time_limit_is_for(number, delay):
    given = {k: np.zeros(1000) for k in range(12)}
    link = Link(delay=delay, bandwidth=1e7)
    hop = (link, 8000)
    ours = fl.ChainAggregator(time_limit=time_limit(number, hop, hop))
    network = Network(server=link, peers=link)
    outcome = aggregate(ours, given, transport=InProcessTransport(network))
    assert len(outcome.included) == number


def test_time_limit_of_one_client_is_refused():
    link = (Link(), 1.0)
    with refused("participants", "range", 1):
        time_limit(1, link, link)
    assert time_limit(3, (Link(delay=1.0), 0), (Link(delay=5.0), 0), training=2.0) == 9.0
