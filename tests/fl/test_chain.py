"""Chained aggregation: exact sums, masks, drop-outs, forgeries, and who learns what."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fl
from extensions.errors import RoundError
from fl.chain.token import uniform
from fl.protocols import SERVER, Machine, Message, Outcome, Output, Round, Vector, aggregate
from fl.round.determined import determined_sums
from fl.round.latency import chain_seconds, chains_seconds, star_seconds, transfer_seconds
from fl.simulation import DropOut, InProcessTransport, Link, Network
from tests.helpers.refused import refused

FALSE_ALARM = 1e-8
FINE = fl.FixedPoint(frac_bits=50, clip=8.0)
EDGE = -2


def updates(clients: int, size: int = 4) -> dict[int, Vector]:
    draws = np.random.default_rng(clients).uniform(-1, 1, size=(clients, size))
    return dict(enumerate(draws))


def run(aggregator: fl.ChainAggregator, given: dict[int, Vector], **how: object) -> Outcome:
    weights = {client: client + 1 for client in given}
    carrier = InProcessTransport(**how)  # type: ignore[arg-type]
    return aggregate(aggregator, given, weights, transport=carrier)


def expect_exact(outcome: Outcome, given: dict[int, Vector], point: fl.FixedPoint) -> None:
    """Asserts that the mean is, bit for bit, that of the included clients, each counted once."""
    rows = [point.encode(given[client], client + 1) for client in outcome.included]
    total = np.sum(rows, axis=0, dtype=point.dtype)
    weight = sum(client + 1 for client in outcome.included)
    np.testing.assert_array_equal(outcome.aggregate.mean, point.decode(total, weight))


def path(outcome: Outcome, chain: int = 0) -> list[int]:
    """Returns the clients of a chain in their order, by the sum that was returned."""
    sums = [entry.message for entry in outcome.transcript if entry.message.kind == "sum"]
    (users,) = [sent.body["users"].tolist() for sent in sums if sent.body["chain"] == chain]  # type: ignore[union-attr]
    return users


@pytest.mark.parametrize(("chains", "edges"), [(1, 0), (2, 0), (3, 1), (4, 2)])
@pytest.mark.parametrize(("bits", "frac_bits"), [(32, 20), (64, 40)])
def test_mean_is_that_of_all_clients_bit_for_bit(chains, edges, bits, frac_bits):
    point = fl.FixedPoint(bits=bits, frac_bits=frac_bits, clip=2.0)
    given = updates(9)
    aggregator = fl.ChainAggregator(point, chains=chains, edges=edges)
    outcome = run(aggregator, given)
    assert outcome.included == tuple(range(9))
    assert outcome.refusals == ()
    expect_exact(outcome, given, point)
    lengths = [len(path(outcome, chain)) for chain in range(chains)]
    assert sorted(lengths) == sorted(len(range(c, 9, chains)) for c in range(chains))


def test_cost_is_one_sum_a_client_and_one_for_the_mask():
    small, large = (run(fl.ChainAggregator(), updates(5, size)) for size in (2000, 3000))
    assert large.transcript.bytes() - small.transcript.bytes() == (5 + 1) * 1000 * 8
    sent = [entry.message for entry in small.transcript]
    assert sum(len(message.body.get("sending", b"")) for message in sent) == 5 * 5


def test_every_order_of_the_clients_is_as_likely():
    """Fails by chance with probability about 1e-8: Pearson's statistic, 5 degrees of freedom."""
    aggregator, given, runs = fl.ChainAggregator(), updates(3, 1), 300
    orders = Counter(tuple(path(run(aggregator, given))) for _ in range(runs))
    limit = stats.chi2.isf(FALSE_ALARM, 5)
    counts = np.array([orders[order] for order in itertools.permutations(range(3))])
    assert counts.sum() == runs
    assert pearson(counts) < limit
    always_first = np.array([1, 1, 0, 0, 0, 0]) * runs // 2
    assert pearson(always_first) > 10 * limit


def pearson(counts: np.ndarray) -> float:
    """Returns Pearson's statistic of the counts against the uniform distribution."""
    expected = counts.sum() / len(counts)
    return float(np.sum((counts - expected) ** 2) / expected)


def bytes_statistic(words: np.ndarray) -> float:
    """Returns Pearson's statistic of all bytes of the words."""
    return pearson(np.bincount(words.view(np.uint8), minlength=256))


@pytest.mark.parametrize("bits", [32, 64])
def test_what_one_client_sees_is_uniform_whatever_the_updates(bits):
    """Fails by chance with probability 1e-7 at most.

    For bits = 32 and 64 together there are 10 tokens, each with 50,000 bits / 8 independent uniform
    bytes, and one test of Pearson's statistic with 255 degrees of freedom at 1e-8 each.
    """
    point = fl.FixedPoint(bits=bits, frac_bits=10)
    given = {client: np.full(50_000, 3.0 * client) for client in range(5)}
    outcome = run(fl.ChainAggregator(point), given)
    limit = stats.chi2.isf(FALSE_ALARM, 255)
    for client in given:
        (token,) = outcome.transcript.received(client, "token")
        assert bytes_statistic(token.body["values"]) < limit
    unmasked = np.sum([point.encode(given[k], k + 1) for k in (1, 2)], axis=0, dtype=point.dtype)
    assert bytes_statistic(unmasked) > 100 * limit


def test_masks_of_chains_rounds_and_attempts_differ():
    given = updates(6, 8)
    drops = [DropOut(k, "token") for k in range(2)]
    aggregator = fl.ChainAggregator(chains=2)
    masks = []
    for how in ({}, {}, {"drop_outs": drops}):
        for entry in run(aggregator, given, **how).transcript:
            if entry.message.kind == "token" and entry.message.sender == SERVER:
                masks.append(entry.message.body["values"].tobytes())  # type: ignore[union-attr]
    assert len(masks) >= 6
    assert len(set(masks)) == len(masks)
    assert not np.array_equal(uniform(8, np.dtype("u8")), uniform(8, np.dtype("u8")))


# Neighbours and time.


def circle(client: int) -> list[int]:
    return [(client - 1) % 6, (client + 1) % 6]


def test_token_goes_from_neighbour_to_neighbour():
    given = updates(6)
    outcome = run(fl.ChainAggregator(FINE, neighbours=circle), given)
    order = path(outcome)
    assert outcome.included == tuple(range(6))
    assert all(b in circle(a) for a, b in itertools.pairwise(order))


def test_client_without_neighbours_is_left_out_and_another_begins():
    """Fails by chance with probability 0.75^64 + 0.25^64 < 1.1e-8, if it never or always begins."""
    given = updates(4)
    reasons = set()
    for _ in range(64):
        aggregator = fl.ChainAggregator(FINE, neighbours=lambda k: {} if k == 3 else {0, 1, 2})
        outcome = run(aggregator, given)
        assert outcome.included == (0, 1, 2)
        (refusal,) = outcome.refusals
        assert refusal.client == 3
        reasons.add(refusal.reason)
        expect_exact(outcome, given, FINE)
    assert reasons == {"it can hand the token of chain 0 to nobody", "chain 0 ended without it"}


@pytest.mark.parametrize(("limit", "members"), [(0.5, 2), (1.0, 2), (1.1, 3), (2.5, 4), (9.0, 5)])
def test_holder_returns_the_token_when_time_is_up_but_never_alone(limit, members):
    network = Network(peers=Link(delay=1.0))
    given = updates(5)
    outcome = run(fl.ChainAggregator(FINE, time_limit=limit), given, network=network)
    assert len(outcome.included) == members
    assert {refusal.client for refusal in outcome.refusals} == set(given) - set(outcome.included)
    assert all(refusal.reason == "chain 0 ended without it" for refusal in outcome.refusals)
    expect_exact(outcome, given, FINE)


@pytest.mark.parametrize(("clients", "chains"), [(1, 1), (3, 2), (5, 3)])
def test_chain_of_one_client_is_refused(clients, chains):
    with refused("clients of a round", "range", value=clients):
        run(fl.ChainAggregator(chains=chains), updates(clients))


@pytest.mark.parametrize(
    ("name", "value"),
    [("chains", 0), ("edges", 2), ("edges", -1), ("timeout", 0.0), ("time_limit", np.inf)],
)
def test_settings_outside_their_range_are_refused(name, value):
    with refused(name, "range", value):
        fl.ChainAggregator(**{name: value})


# Drop-outs.


def test_token_goes_back_past_all_who_are_gone_at_once():
    """Clients that hand the token on and then vanish cannot reissue it."""
    given = updates(6)
    gone = {k: DropOut(k, "passed", "after") for k in range(5)}
    for last in range(1, 4):
        drops = [gone[k] for k in range(last)] + [
            DropOut(5, "token"),
            DropOut(5, "sum"),
        ]
        outcome = run(fl.ChainAggregator(FINE, timeout=1.0), given, drop_outs=drops)
        assert 5 not in outcome.included
        assert set(range(last, 5)) <= set(outcome.included)
        expect_exact(outcome, given, FINE)


def test_too_few_clients_fail_the_round_and_name_the_lost():
    drops = [DropOut(k, "token") for k in (0, 1, 2)] + [DropOut(k, "sum") for k in (0, 1, 2)]
    with pytest.raises(RoundError, match="at least two clients.*client 0: no report of the token"):
        run(fl.ChainAggregator(timeout=1.0), updates(4), drop_outs=drops)


@pytest.mark.parametrize("kind", ["held", "merged"])
def test_lost_edge_node_costs_its_own_chains_alone(kind):
    given = updates(8)
    drops = [DropOut(EDGE, kind)]
    with pytest.raises(RoundError, match="no chain returned"):
        run(fl.ChainAggregator(chains=2, edges=1), given, drop_outs=drops)
    outcome = run(fl.ChainAggregator(FINE, chains=4, edges=2), given, drop_outs=drops)
    assert len(outcome.included) == 4
    expect_exact(outcome, given, FINE)
    assert {refusal.client for refusal in outcome.refusals} == set(given) - set(outcome.included)


def slow_link(given: dict[int, Vector]) -> Outcome:
    """Returns a round in which what client 0 sends is late, so that it is taken for lost.

    Its token reaches the next client before the server's word that it is, and goes on from there.
    """
    links = {(0, other): Link(delay=2.45) for other in (SERVER, *given)}
    network = Network(server=Link(delay=0.5), peers=Link(delay=0.1), links=links)
    return run(fl.ChainAggregator(FINE, timeout=2.0), given, network=network)


def test_late_token_of_a_client_taken_for_lost_counts_nothing():
    given = updates(5)
    for _ in range(4):
        outcome = slow_link(given)
        assert outcome.included == (1, 2, 3, 4)
        assert [refusal.client for refusal in outcome.refusals] == [0]
        expect_exact(outcome, given, FINE)


def test_reissued_token_waits_for_the_word_of_its_attempt():
    """The server's word reaches client 3 after the token: nobody is blamed for that."""
    given = updates(5)
    links = {(SERVER, 3): Link(delay=1.5)}
    network = Network(server=Link(delay=0.1), peers=Link(delay=0.1), links=links)
    early = 0
    while early < 2:
        drops = [DropOut(0, "token"), DropOut(0, "sum")]
        aggregator = fl.ChainAggregator(FINE, timeout=4.0)
        outcome = run(aggregator, given, network=network, drop_outs=drops)
        assert outcome.included == (1, 2, 3, 4)
        assert [refusal.client for refusal in outcome.refusals] == [0]
        expect_exact(outcome, given, FINE)
        early += len(outcome.transcript.received(SERVER, "refused"))


# Forgeries.


class Rogue(Machine):
    """A client that follows the protocol and sends more besides, once it has sent its token."""

    def __init__(
        self,
        inner: Machine,
        extra: Callable[[Machine, Message], list],
    ) -> None:
        super().__init__(inner.round, inner.party)
        self.inner, self.extra = inner, extra

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        for output in self.inner.receive(message, now):
            if isinstance(output, Message) and output.kind in ("token", "sum"):
                yield from self.extra(self.inner, output)
            else:
                yield output


def run_rogue(
    given: dict[int, Vector],
    extra: Callable[[Machine, Message], list],
) -> Outcome:
    """Returns a round in which client 1 is a rogue, and among the first three of its chain."""
    outcome = run_rogue_once(given, extra)
    (token,) = outcome.transcript.received(1, "token")
    early = len(token.body["users"]) < 3  # type: ignore[arg-type]
    return outcome if early else run_rogue(given, extra)


def run_rogue_once(
    given: dict[int, Vector],
    extra: Callable[[Machine, Message], list],
) -> Outcome:
    aggregator = fl.ChainAggregator(FINE, timeout=1.0)
    round = Round(number=2, size=4, weights={client: client + 1 for client in given})
    machines = {client: aggregator.client(round, client, given[client]) for client in given}
    machines[1] = Rogue(machines[1], extra)
    machines[SERVER] = aggregator.server(round)
    network = Network(peers=Link(delay=0.1))
    return InProcessTransport(network).run(machines)


def test_token_for_one_client_is_refused_by_another_and_its_sender_named():
    given = updates(5)

    def misdirect(inner: Machine, sent: Message) -> list:
        return [sent, *(replace(sent, receiver=k) for k in (0, 2, 3, 4) if k != sent.receiver)]

    for _ in range(4):
        outcome = run_rogue(given, misdirect)
        (refusal,) = outcome.refusals
        assert refusal.client == 1
        assert "whose tag is not that of client 1 for this link and round" in refusal.reason
        expect_exact(outcome, given, FINE)


def test_token_of_another_round_is_refused_and_its_sender_named():
    given = updates(5)
    old: dict[int, Message] = {}
    while len(old) < 4:
        for entry in run(fl.ChainAggregator(FINE), given).transcript:
            if (entry.message.sender, entry.message.kind) == (1, "token"):
                old[entry.message.receiver] = entry.message

    def replay(inner: Machine, sent: Message) -> list:
        to = sent.receiver if sent.receiver in old else 0
        return [sent, old[to], replace(old[to], round=2)]

    outcome = run_rogue(given, replay)
    (refusal,) = outcome.refusals
    assert refusal.client == 1
    assert "a token of round 1 by client 1" in refusal.reason
    expect_exact(outcome, given, FINE)


# Who learns what.


def brute_force(
    outcome: Outcome, coalition: fl.Coalition, given: dict[int, Vector]
) -> frozenset[frozenset[int]]:
    """Returns the smallest sets of clients whose sums the coalition can add up, by trying all.

    From values alone: all combinations with factors -1, 0 and 1 of the vectors in the recorded
    view, the members' updates and the total, against the sums of all sets of other clients. Vectors
    are compared by a random linear function modulo 2^64. Two that differ by d become one number
    with probability 2^(t - 64), where 2^t is the largest power that divides d; as the low bits of
    d are random in each of 4 values, that is below 2^-63 in all. Here 316 coalitions with less than
    2^23 numbers between them, and at most 2^5 sets each, hit one falsely at 2^28 / 2^63 < 3e-11.
    """
    factors = np.frombuffer(np.random.default_rng().bytes(8 * 4), dtype=np.uint64)

    def number(vector: np.ndarray) -> int:
        return int(np.sum(vector * factors, dtype=np.uint64))

    own = {client: FINE.encode(given[client], client + 1) for client in given}
    total = np.sum([own[client] for client in outcome.included], axis=0, dtype=np.uint64)
    seen = [
        number(message.body["values"])  # type: ignore[arg-type]
        for message in outcome.transcript.view(coalition)
        if "values" in message.body
    ]
    seen += [number(own[client]) for client in coalition.clients] + [number(total)]
    reachable = np.zeros(1, dtype=np.uint64)
    for value in map(np.uint64, dict.fromkeys(seen)):
        reachable = np.unique(np.concatenate([reachable, reachable + value, reachable - value]))
    others = sorted(set(given) - coalition.clients)
    sets = [frozenset(s) for r in range(1, 6) for s in itertools.combinations(others, r)]
    sums = np.array(
        [number(np.sum([own[k] for k in s], axis=0, dtype=np.uint64)) for s in sets],
        dtype=np.uint64,
    )
    found = {one for one, hit in zip(sets, np.isin(sums, reachable), strict=True) if hit}
    return frozenset(one for one in found if not any(other < one for other in found))


def coalitions(
    clients: Iterable[int], others: Iterable[int] = (), *, most: int = 5
) -> Iterable[fl.Coalition]:
    """Yields all coalitions of at most so many clients, with and without other parties."""
    everybody = [*clients, SERVER, *others]
    for count in range(len(everybody) + 1):
        for members in itertools.combinations(everybody, count):
            if sum(k >= 0 for k in members) > most:
                continue
            yield fl.Coalition(
                [k for k in members if k >= 0],
                server=SERVER in members,
                others=[k for k in members if k < SERVER],
            )


def lost_holder(given: dict[int, Vector]) -> Outcome:
    """Returns a round in which clients 2 and 3 had the token and vanished with it."""
    drops = [DropOut(k, kind) for k in (2, 3) for kind in ("token", "sum")]
    return run(fl.ChainAggregator(FINE, timeout=1.0), given, drop_outs=drops)


def late_holder(given: dict[int, Vector], kind: str = "token") -> Outcome:
    """Returns a round in which what client 0 sent, not the first, was reissued by another."""
    while True:
        outcome = slow_link(given)
        sent = [e.message for e in outcome.transcript if e.message.sender == 0]
        if any(m.kind == kind and len(m.body["users"]) > 1 for m in sent):  # type: ignore[arg-type]
            return outcome


def late_sum(given: dict[int, Vector]) -> Outcome:
    """Returns a round in which the last client was taken for lost before its sum came."""
    return late_holder(given, "sum")


ROUNDS = {
    "one chain": lambda given: run(fl.ChainAggregator(FINE), given),
    "lost holders": lost_holder,
    "late holder": late_holder,
    "late sum": late_sum,
}


@pytest.mark.parametrize("name", ROUNDS)
def test_leaks_are_exactly_the_sums_that_the_views_give_away(name):
    given = updates(5)
    outcome = ROUNDS[name](given)
    aggregator = fl.ChainAggregator()
    for coalition in coalitions(given, most=5 if name == "one chain" else 3):
        expected = brute_force(outcome, coalition, given)
        assert aggregator.leaks_to(coalition, outcome) == expected, (path(outcome), coalition)


def test_late_sum_shows_the_server_the_update_of_the_late_client():
    outcome = late_sum(updates(5))
    assert outcome.included == (1, 2, 3, 4)
    leaks = fl.ChainAggregator().leaks_to(fl.Coalition(server=True), outcome)
    assert leaks == {frozenset({0}), frozenset({1, 2, 3, 4})}


@pytest.mark.parametrize("edges", [0, 1])
def test_edge_node_hides_the_sums_of_single_chains_from_the_server(edges):
    given = updates(5)
    aggregator = fl.ChainAggregator(FINE, chains=2, edges=edges)
    outcome = run(aggregator, given)
    chains = {frozenset(path(outcome, chain)) for chain in (0, 1)}
    server = fl.Coalition(server=True)
    assert aggregator.leaks_to(server, outcome) == (chains if not edges else {frozenset(range(5))})
    if edges:
        both = fl.Coalition(server=True, others=[EDGE])
        assert aggregator.leaks_to(both, outcome) == chains
    for coalition in coalitions(given, [EDGE] if edges else [], most=2):
        assert aggregator.leaks_to(coalition, outcome) == brute_force(outcome, coalition, given)


def test_neighbours_on_the_chain_recover_the_update_between_them():
    """The attacks by hand: what is recovered is the encoded update, bit for bit."""
    given = updates(6)
    aggregator = fl.ChainAggregator(FINE)
    outcome = run(aggregator, given)
    order = path(outcome)
    values = [outcome.transcript.received(k, "token")[0].body["values"] for k in order]
    values.append(outcome.transcript.received(SERVER, "sum")[0].body["values"])
    own = [FINE.encode(given[k], k + 1) for k in order]
    for i in range(1, 5):
        coalition = fl.Coalition([order[i - 1], order[i + 1]])
        assert frozenset({order[i]}) in aggregator.leaks_to(coalition, outcome)
        # What the later neighbour received, less what the earlier one sent.
        np.testing.assert_array_equal(values[i + 1] - (values[i - 1] + own[i - 1]), own[i])
    last = fl.Coalition([order[-2]], server=True)
    assert frozenset({order[-1]}) in aggregator.leaks_to(last, outcome)
    np.testing.assert_array_equal(values[-1] - (values[-3] + own[-2]), own[-1])
    second = fl.Coalition([order[1]], server=True)
    assert frozenset({order[0]}) in aggregator.leaks_to(second, outcome)
    np.testing.assert_array_equal(values[1] - values[0], own[0])
    for apart in (fl.Coalition([order[2]]), fl.Coalition(server=True)):
        assert aggregator.leaks_to(apart, outcome) == {frozenset(given) - apart.clients}


def test_determined_sums_are_those_that_do_not_raise_the_rank():
    draws = np.random.default_rng(8)
    clients, masks = range(6), [(0, 1), (0, 2), (1, 1)]
    names = [*masks, *clients]
    for _ in range(60):
        matrix = draws.random((draws.integers(1, 7), len(names))) < 0.45
        known = [[names[i] for i in np.flatnonzero(row)] for row in matrix]
        rank = np.linalg.matrix_rank(matrix.astype(float))
        found = set()
        for count in range(1, 7):
            for chosen in itertools.combinations(clients, count):
                row = [name in chosen for name in names]
                if np.linalg.matrix_rank(np.vstack([matrix, row]).astype(float)) == rank:
                    found.add(frozenset(chosen))
        assert determined_sums(known) == {s for s in found if not any(t < s for t in found)}


# Latency.


def test_clock_of_a_chain_is_that_of_the_formula():
    """The delays and bandwidths are those of each link; the sizes are those that were sent."""
    draws = np.random.default_rng(4)
    parties = [SERVER, *range(6)]
    links = {
        pair: Link(delay=draws.uniform(0.5, 2.0), bandwidth=draws.uniform(1e4, 1e5))
        for pair in itertools.permutations(parties, 2)
    }
    network = Network(links=links)
    for chains in (1, 2):
        outcome = run(fl.ChainAggregator(chains=chains), updates(6, 900), network=network)
        times = []
        for chain in range(chains):
            order = path(outcome, chain)
            ways = list(itertools.pairwise([SERVER, *order, SERVER]))
            hops = [(links[way], sent_on(outcome, way)) for way in ways]
            times.append(chain_seconds(hops))
        assert outcome.seconds == pytest.approx(chains_seconds(times), rel=1e-12)


def sent_on(outcome: Outcome, way: tuple[int, int]) -> int:
    """Returns the bytes of keys and tokens on a link, without word that follows them."""
    kinds = ("chain", "token", "sum")
    return sum(
        entry.size
        for entry in outcome.transcript
        if (entry.message.sender, entry.message.receiver) == way
        and entry.message.kind in kinds
        and not (way[1] == SERVER and entry.message.kind != "sum")
    )


def test_clock_with_an_edge_node_adds_its_upload():
    network = Network(server=Link(delay=1.0), peers=Link(delay=0.25))
    outcome = run(fl.ChainAggregator(chains=2, edges=1), updates(6), network=network)
    one = chain_seconds([(Link(delay=d), 0) for d in (1.0, 0.25, 0.25, 1.0)])
    # The edge's word of both sums, and the server's question, go to and fro before the upload.
    assert outcome.seconds == chains_seconds([one, one], (Link(delay=1.0), 0)) + 2 * 1.0


def test_clock_of_a_star_is_that_of_its_slowest_client():
    given = updates(4)
    links = {(k, SERVER): Link(delay=0.5 * k, bandwidth=1e3) for k in given}
    carrier = InProcessTransport(Network(links=links))
    outcome = aggregate(fl.PlainAggregator(), given, transport=carrier)
    uploads = [(links[k, SERVER], outcome.transcript.bytes(sender=k)) for k in given]
    assert outcome.seconds == star_seconds(uploads)


def test_late_training_delays_a_chain_only_from_its_client_on():
    hop = (Link(delay=1.0, bandwidth=10.0), 20.0)
    assert transfer_seconds(hop) == 3.0
    assert chain_seconds([hop] * 4) == 12.0
    assert chain_seconds([hop] * 4, [0.0, 6.0, 0.0]) == 12.0
    assert chain_seconds([hop] * 4, [0.0, 10.0, 0.0]) == 16.0
    assert star_seconds([hop] * 3, [0.0, 10.0, 2.0]) == 13.0
    for wrong in ([], [hop]):
        with refused("clients", "range", value=0):
            chain_seconds(wrong) if wrong else star_seconds(wrong)
    with refused("training", "shape", value=1):
        chain_seconds([hop] * 3, [1.0])
    with refused("chains", "missing", []):
        chains_seconds([])
