"""Masked aggregation on sparse graphs: exact sums, who holds what, and what each party refuses."""

import re
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest

import fl
from extensions.errors import RoundError
from fl.masked import ciphers
from fl.masked.sparse import graph, merkle
from fl.masked.sparse.client import SparseClient
from fl.masked.sparse.leaks import graph_of
from fl.masked.sparse.terms import SparseRoster, consented
from fl.masked.terms import MASK_KEY, SEED
from fl.protocols import SERVER, Machine, Message, Outcome, Refusal, RingVector, Round, aggregate
from fl.simulation import DropOut, InProcessTransport
from tests.helpers.federated.attackers import innermost
from tests.helpers.federated.masked_rounds import (
    SMALL,
    altered,
    check_exact,
    run,
    sparse,
    tamper,
    updates,
)
from tests.helpers.refused import refused

Change = Callable[[Message, dict[int, Machine]], object]


@pytest.mark.parametrize("bits", [32, 64])
def test_true_degrees_sum_exactly_with_a_fifth_lost(bits):
    clients = 90
    fixed = fl.FixedPoint(bits=bits, frac_bits=12, clip=2.0)
    asked = fl.SparseGraph(corrupt=0.0, dropping=0.2)
    aggregator, given = fl.MaskedAggregator(graph=asked, fixed_point=fixed), updates(clients)
    given = {client: update / 2 for client, update in given.items()}
    lost = [DropOut(5 * c, ("shares", "masked", "unmask")[c % 3]) for c in range(clients // 5)]
    outcome, machines = run(aggregator, given, drop_outs=lost)
    check_exact(aggregator, given, outcome, [c for c in given if c % 15 > 9 or c % 5])
    assert machines[0]._terms.degree.neighbours < 40
    assert type(machines[0]) is SparseClient


@pytest.mark.parametrize("asked", [None, fl.SparseGraph(corrupt=0.3)])
def test_few_clients_have_keys_with_all(asked):
    aggregator = fl.MaskedAggregator(fixed_point=SMALL, graph=asked)
    outcome, _ = run(aggregator, updates(7))
    (keys,) = outcome.transcript.received(0, "keys")
    assert keys.clients("clients") == tuple(range(7))
    assert outcome.transcript.received(0, "consents")


@pytest.mark.parametrize(("clients", "k"), [(40, 8), (30, 5)])
def test_bytes_of_a_client_are_those_of_the_formula(clients, k):
    aggregator = sparse(neighbours=k, shares=2)
    outcome, machines = run(aggregator, updates(clients))
    marks, depth, t = -(-clients // 8), (clients - 1).bit_length(), aggregator.needed(clients)
    for client in range(clients):
        met = len(machines[client]._roster.clients) - 1
        drawing = len(machines[client].dealing)
        up = 130 * k + 32 * drawing + marks + 5 * 4 + 410
        assert outcome.transcript.bytes(sender=client) == up
        down = 169 * met + 130 * drawing + 64 * t + 32 * depth + 3 * marks + 211
        assert outcome.transcript.bytes(receiver=client) == down


# --- graphs ---------------------------------------------------------------------------------------


def test_draws_are_of_others_and_all_alike():
    """2,000 draws of 3 of 9: 667 of each, with standard deviation 21."""
    counts = Counter(c for _ in range(2000) for c in graph.drawn(4, range(10), 3))
    assert set(counts) == set(range(10)) - {4}
    assert all(abs(count - 2000 / 3) < 6 * 21 for count in counts.values())


def test_graph_among_some_has_their_edges_alone():
    whole = graph.Graph({0: [1, 2], 1: [3], 2: [0], 3: [0, 1]})
    left = whole.among([0, 1, 3])
    assert left.holders == {0: [1], 1: [3], 3: [0, 1]}
    assert left.dealers == {0: [3], 1: [0, 3], 3: [1]}
    assert left.neighbours == {0: {1, 3}, 1: {0, 3}, 3: {0, 1}}
    assert (whole.row(0, 2), whole.row(3, 0)) == (1, 0)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 13])
def test_path_of_a_tree_leads_from_its_leaf_to_its_root_and_no_other(size):
    leaves = [merkle.leaf(bytes([value])) for value in range(size)]
    tree = merkle.Tree(leaves)
    for place, digest in enumerate(leaves):
        path = tree.path(place)
        assert merkle.root_of(digest, place, path) == tree.root
        for other in range(size):
            if other != place:
                assert merkle.root_of(leaves[other], place, path) != tree.root
                assert merkle.root_of(digest, other, path) != tree.root
    other = merkle.leaf(b"x")
    roots = {merkle.Tree([*leaves[:k], other, *leaves[k + 1 :]]).root for k in range(size)}
    assert len(roots | {tree.root}) == size + 1


# --- what clients refuse --------------------------------------------------------------------------


def first_refusal(kind: str, change: Change, *parties: int) -> tuple[int, str]:
    """Returns who is left out first of a round in which parties send something else, and why."""
    aggregator, given = sparse(neighbours=6, shares=2), updates(10)
    outcome, _ = run(aggregator, given, tamper(kind, change, *parties))
    check_exact(aggregator, given, outcome, outcome.included)
    first, *_ = outcome.refusals
    return first.client, first.reason


def to_client_0(change: Change) -> Change:
    return lambda message, machines: change(message, machines) if message.receiver == 0 else message


def bit(name: str, client: int) -> Change:
    """Returns a change that turns the mark of a client."""

    def change(message: Message, machines: dict[int, Machine]) -> Message:
        marks = np.array(message.body[name])
        marks[client // 8] ^= 128 >> client % 8
        return altered(message, **{name: marks})

    return change


def flipped(name: str) -> Change:
    def change(message: Message, machines: dict[int, Machine]) -> Message:
        array = np.array(message.body[name])
        array.reshape(-1)[0] ^= 1
        return altered(message, **{name: array})

    return change


def rows(kept: list[int], *names: str) -> Change:
    return lambda m, _: altered(m, **{name: m.body[name][kept] for name in names})


ROSTER = ("clients", "adverts", "signatures")


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("keys", flipped("adverts"), "a signature that is not client"),
        ("keys", lambda m, _: altered(m, needed=1), "number of shares that is not 2"),
        ("keys", lambda m, _: altered(m, clients=m.body["clients"] + 20), "who take no part"),
        ("keys", rows([1, 0, 2, 3, 4, 5], *ROSTER), "out of order|shape"),
        ("sealed", bit("dealt", 0), "leaves out its reader"),
        ("sealed", bit("dealt", 15), "marks more than 10 clients as 'dealt'"),
        ("sealed", lambda m, _: altered(m, dealt=np.array([224, 0], np.uint8)), "fewer than the"),
        ("sealed", lambda m, _: altered(m, sealed=m.body["sealed"][1:]), "must hold .* shape"),
        ("survivors", bit("survivors", 0), "leaves out its reader"),
        ("survivors", lambda m, _: altered(m, survivors=np.array([248, 0], np.uint8)), "fewer"),
    ],
)
def test_client_withdraws_from_a_server_that_lies_to_it(kind, change, reason):
    client, given = first_refusal(kind, to_client_0(change), SERVER)
    assert client == 0
    assert re.search(reason, given)


def test_client_refuses_a_survivor_who_dealt_no_share():
    aggregator, given = sparse(neighbours=6, shares=2), updates(10)
    lies = tamper("survivors", to_client_0(bit("survivors", 9)), SERVER)
    outcome, _ = run(aggregator, given, lies, drop_outs=[DropOut(9, "shares")])
    assert Refusal(0, "'survivors' marks [9] as 'survivors', wrongly") in outcome.refusals


def test_consent_of_a_client_that_is_no_survivor_does_not_count():
    aggregator, given = sparse(neighbours=6, shares=2), updates(10)
    lies = tamper("consents", to_client_0(bit("signers", 9)), SERVER)
    outcome, _ = run(aggregator, given, lies, drop_outs=[DropOut(9, "masked")])
    assert Refusal(0, "'consents' marks [9] as 'signers', wrongly") in outcome.refusals


def test_client_withdraws_where_too_few_neighbours_are_left():
    def alone(message: Message, machines: dict[int, Machine]) -> Message:
        listed = enumerate(message.body["clients"].tolist())
        at = next(place for place, c in listed if c in innermost(machines[0])._drawn)
        kept = {name: message.body[name][at : at + 1] for name in (*ROSTER, "draws_you")}
        return altered(message, **kept)

    client, reason = first_refusal("keys", to_client_0(alone), SERVER)
    assert (client, reason) == (0, "1 neighbours are left, of the 2 that are needed")


def with_a_stranger(message: Message, machines: dict[int, Machine]) -> Message:
    """Returns the keys with those of a client that did not draw client 0, nor was drawn by it."""
    stranger = next(c for c in range(1, 10) if c not in innermost(machines[0])._drawn)
    listed = message.body["clients"].tolist()
    rows = {c: [message.body[n][at] for n in ROSTER[1:]] for at, c in enumerate(listed)}
    other = innermost(machines[stranger])
    rows[stranger] = [other._advert, other._sign(other._terms.advertised(other._advert))]
    columns = zip(*(rows[c] for c in sorted(rows)), strict=True)
    body = dict(zip(ROSTER[1:], map(np.stack, columns), strict=True))
    flags = np.zeros(len(rows), dtype=np.uint8)
    return altered(message, clients=np.array(sorted(rows)), draws_you=flags, **body)


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("keys", with_a_stranger, "who are no neighbours"),
        ("consents", flipped("signatures"), "a signature that is not client 0's"),
        ("consents", bit("signers", 9), "must hold .* shape"),
        ("consents", lambda m, _: altered(m, signers=np.array([248, 0], np.uint8)), "fewer than"),
    ],
)
def test_client_that_draws_withdraws_from_a_server_that_lies_to_it(kind, change, reason):
    client, given = first_refusal(kind, to_client_0(change), SERVER)
    assert client == 0
    assert re.search(reason, given)


def test_client_of_another_tree_of_keys_consents_to_nothing_of_the_others():
    """Its values are in no sum: nobody opens shares of its seed, which it sealed for another."""
    with pytest.raises(RoundError, match="0 shares of client 0's seed") as failed:
        first_refusal("keys", to_client_0(flipped("path")), SERVER)
    assert "Left out: client 0: a signature that is not client 0's" in str(failed.value)


def test_client_refuses_a_dealer_that_it_drew_and_whose_keys_were_hidden_from_it():
    hidden = []

    def hide(message: Message, machines: dict[int, Machine]) -> Message:
        hidden.append(min(machines[0]._drawn))
        kept = [place for place, c in enumerate(message.body["clients"]) if c != hidden[0]]
        return altered(message, **{n: message.body[n][kept] for n in (*ROSTER, "draws_you")})

    def fill(message: Message, machines: dict[int, Machine]) -> Message:
        row = np.zeros_like(message.body["sealed"][:1])
        return altered(message, sealed=np.concatenate([row, message.body["sealed"]]))

    aggregator, given = sparse(neighbours=6, shares=2), updates(10)

    def lies(machines: dict[int, Machine]) -> None:
        tamper("shares", fill, 0)(machines)
        inner = {**machines, 0: innermost(machines[0])}
        tamper("keys", lambda m, _: to_client_0(hide)(m, inner), SERVER)(machines)

    outcome, _ = run(aggregator, given, lies)
    reason = f"'sealed' lists [{hidden[0]}], whose keys were not sent"
    assert outcome.refusals[0] == Refusal(0, reason)


def test_holder_opens_nothing_of_a_survivor_who_masked_without_it():
    """The server tells client 0 that half of its holders dealt nothing, and drops the others.

    The holders who were left out have shares of its seed, and its masks with the rest would go.
    """
    aggregator, given = sparse(neighbours=6, shares=3), updates(12)
    left: dict[str, frozenset[int]] = {}

    def fewer(message: Message, machines: dict[int, Machine]) -> Message:
        client = innermost(machines[0])
        gone = frozenset(sorted(client._drawn)[:3])
        left["out"] = gone
        dealt = client._terms.marked(message, "dealt") - gone
        dealers = [c for c in client.dealing if c in client._terms.marked(message, "dealt")]
        kept = [place for place, c in enumerate(dealers) if c not in gone]
        body = {"dealt": client._terms.marks(dealt), "sealed": message.body["sealed"][kept]}
        return altered(message, **body)

    def fill(message: Message, machines: dict[int, Machine]) -> Message:
        holders = innermost(machines[0]).holders
        told = [c for c in holders if c not in left["out"]]
        tags = dict(zip(told, message.body["tags"], strict=True))
        padded = [tags.get(c, np.zeros(32, np.uint8)) for c in holders]
        return altered(message, tags=np.array(padded))

    opened = []

    def note(message: Message, machines: dict[int, Machine]) -> Message:
        dealers = innermost(machines[message.sender])._dealers
        if 0 in dealers:
            opened.append(message.body["keys"][dealers.index(0)].any())
        return message

    def lies(machines: dict[int, Machine]) -> None:
        tamper("unmask", note, *range(12))(machines)
        tamper("masked", fill, 0)(machines)
        tamper("sealed", to_client_0(fewer), SERVER)(machines)

    with pytest.raises(RoundError, match=r"0 shares of client 0's seed can be opened, of the 3"):
        run(aggregator, given, lies)
    assert len(opened) == 6
    assert not any(opened)


def test_client_that_draws_more_than_it_must_is_left_out():
    def more(message: Message, machines: dict[int, Machine]) -> Message:
        return altered(message, drawn=np.array([255, 192], np.uint8))

    client, reason = first_refusal("advertise", more, 3)
    assert (client, reason) == (3, "it draws 9 clients, not as many as it must")


def unproved(machines: dict[int, Machine], dealer: int) -> list[int]:
    """Returns the clients to whom a dealer did not prove that it has a mask with them."""
    return [c for c in range(len(machines) - 1) if dealer in innermost(machines[c])._unproved]


def test_share_whose_tag_is_wrong_is_not_opened_and_the_sum_is_made_with_the_others():
    aggregator, given = sparse(neighbours=6, shares=2), updates(10)
    change = tamper("masked", flipped("tags"), 2)
    outcome, machines = run(aggregator, given, change)
    assert outcome.refusals == ()
    check_exact(aggregator, given, outcome, range(10))
    assert unproved(machines, 2) == [innermost(machines[2]).holders[0]]


# --- options --------------------------------------------------------------------------------------


def test_corrupt_clients_count_as_colluders_do():
    asked = fl.SparseGraph(corrupt=0.35, dropping=0.1)
    with refused("corrupt", "range", value=0.35):
        fl.MaskedAggregator(graph=asked).check_round(
            Round(number=1, size=5, weights=dict.fromkeys(range(40), 1))
        )
    fifth = fl.MaskedAggregator(graph=fl.SparseGraph(corrupt=0.2))
    assert fifth.honest(1000) == 444  # 95 % of 667 - 200
    assert fl.MaskedAggregator(graph=fl.SparseGraph(), colluders=300).honest(1000) == 349


def test_degree_is_in_what_clients_sign():
    round = Round(number=1, size=5, weights=dict.fromkeys(range(10), 1))
    made = [sparse(*how) for how in ((4, 3), (6, 3), (4, 2), (6, 2))]
    contexts = {aggregator._terms(round).context for aggregator in made}
    assert len(contexts) == 4


def test_consent_is_to_both_lists_in_one_session():
    lists = [np.array([bits], dtype=np.uint8) for bits in (224, 192)]
    signed = {consented(s, d, v) for s in (b"s", b"t") for d in lists for v in lists}
    assert len(signed) == 8


def test_keys_of_a_pair_are_for_the_session_and_for_all_that_both_advertised():
    made = np.random.default_rng(1).integers(0, 256, (3, 3, 32), dtype=np.uint8)

    def pair(session: bytes = b"s", changed: tuple[int, int, int] | None = None) -> bytes:
        adverts = made.copy()
        if changed is not None:
            adverts[changed] ^= 1
        roster = SparseRoster.of_some(session, dict(enumerate(adverts)))
        assert roster.pair(0, 1) == roster.pair(1, 0) != roster.pair(0, 2)
        return roster.pair(0, 1)

    others = [pair(changed=(client, row, 7)) for client in (0, 1) for row in range(3)]
    assert len({pair(), pair(b"t"), *others}) == 8
    assert pair(changed=(2, 0, 7)) == pair()


# --- a thousand clients ---------------------------------------------------------------------------


@pytest.mark.long
def test_a_thousand_clients_of_whom_a_fifth_is_lost_have_the_exact_sum():
    """What a client sends and gets differs with who draws it."""
    fixed = fl.FixedPoint(bits=32, frac_bits=9, clip=4.0)
    aggregator = fl.MaskedAggregator(fixed_point=fixed, graph=fl.SparseGraph())
    given, lost = updates(1000), range(3, 603, 3)
    outcome = aggregate(
        aggregator,
        given,
        transport=InProcessTransport(drop_outs=[DropOut(c, "masked") for c in lost]),
    )
    assert outcome.included == tuple(c for c in range(1000) if c not in lost)
    total = sum(fixed.encode(given[c]) for c in outcome.included)
    np.testing.assert_array_equal(outcome.aggregate.mean, fixed.decode(total, 800))
    transcript = outcome.transcript
    for client in (0, 1, 500, 998):
        assert transcript.bytes(sender=client) + transcript.bytes(receiver=client) < 100_000


# --- who learns what ------------------------------------------------------------------------------


def test_leaks_are_sums_of_the_parts_into_which_drop_outs_cut_the_graph(monkeypatch):
    """Each of 9 clients draws the next on either side: without 0 and 4 there are two parts.

    With the masks that it knows taken away, the server has the exact sum of each part.
    """

    def ring(client: int, clients: Iterable[int], number: int) -> tuple[int, ...]:
        return tuple(sorted(((client - 1) % 9, (client + 1) % 9)))

    monkeypatch.setattr("fl.masked.sparse.client.drawn", ring)
    aggregator, given = sparse(neighbours=2, shares=1), updates(9)
    drop_outs = [DropOut(c, "masked") for c in (0, 4)]
    outcome, machines = run(aggregator, given, drop_outs=drop_outs)
    parts = {frozenset({1, 2, 3}), frozenset({5, 6, 7, 8})}
    assert aggregator.leaks_to(fl.Coalition(server=True), outcome) == parts
    left = unmasked(machines, outcome)
    for part in parts:
        encoded = sum(SMALL.encode(given[c], c + 1) for c in part)
        np.testing.assert_array_equal(sum(left[c] for c in part), encoded)
        assert not np.array_equal(left[min(part)], SMALL.encode(given[min(part)], min(part) + 1))


def unmasked(machines: dict[int, Machine], outcome: Outcome) -> dict[int, RingVector]:
    """Returns survivors' values without their own masks, and those with clients that are gone."""
    found = {}
    for message in outcome.transcript.received(SERVER, "masked"):
        client, values = machines[message.sender], np.array(message.body["values"])
        roster, seed = client._roster, client._secrets[SEED]
        key = ciphers.derive(seed, roster.session, "individual mask", client.party)
        values -= ciphers.mask(key, values.size, values.dtype)
        for lost in set(roster.clients) - set(outcome.included):
            own = ciphers.private_key(machines[lost]._secrets[MASK_KEY])
            pair = ciphers.agree(own, roster.mask_key(client.party), client.party)
            session = roster.pair(client.party, lost)
            ciphers.add_pair_mask(values, pair, session, client.party, lost, sign=-1)
        found[client.party] = values
    return found


def test_server_with_enough_holders_of_one_client_reads_it_and_with_fewer_the_sum():
    aggregator, given = sparse(neighbours=4, shares=3), updates(10)
    outcome, _ = run(aggregator, given, drop_outs=[DropOut(3, "masked")])
    holders = graph_of(outcome.transcript).holders
    present = [c for c in holders[0] if c != 3][:3]
    few = fl.Coalition(present[:2], server=True)
    assert aggregator.leaks_to(few, outcome) == {frozenset(outcome.included) - few.clients}
    known = aggregator.leaks_to(fl.Coalition(present, server=True), outcome)
    assert frozenset({0}) in known
    assert frozenset().union(*known) == set(outcome.included) - set(present)
    alone = fl.Coalition(range(1, 9))
    assert aggregator.leaks_to(alone, outcome) == {frozenset({0, 9})}


def test_clients_that_dealt_nothing_are_in_no_part():
    """Nobody has masks with them, and nothing of theirs keeps the sum of the others."""
    aggregator, given = sparse(neighbours=4, shares=2), updates(10)
    outcome, _ = run(aggregator, given, drop_outs=[DropOut(3, "shares")])
    known = aggregator.leaks_to(fl.Coalition(server=True), outcome)
    assert known == {frozenset(range(10)) - {3}}


def test_lying_server_reads_all_with_too_many_clients():
    given, drawn = updates(10), sparse()
    drawn.colluders = 1
    outcome, _ = run(drawn, given)
    one, two = (fl.Coalition(range(c), server=True, lying=True) for c in (1, 2))
    assert drawn.leaks_to(one, outcome) == {frozenset(range(1, 10))}
    assert drawn.leaks_to(two, outcome) == {frozenset({c}) for c in range(2, 10)}
