"""Masked aggregation: exact sums whoever drops out or cheats, and culprits by name."""

import re
from collections.abc import Callable

import numpy as np
import pytest

import fl
from extensions.errors import RoundError, UpdateError
from fl.masked.ciphers import fresh_key
from fl.masked.server import MaskedServer
from fl.protocols import SERVER, Machine, Message, Refusal, Round, aggregate
from fl.simulation import DropOut
from tests.helpers.federated.masked_rounds import altered, check_exact, half, run, tamper, updates
from tests.helpers.refused import refused

BEFORE, AFTER = ("advertise", "shares", "masked"), ("consent", "unmask")


@pytest.mark.parametrize("bits", [32, 64])
def test_sum_is_exact_when_clients_drop_out_at_all_stages_of_one_round(bits):
    fixed = fl.FixedPoint(bits=bits, frac_bits=16, clip=4.0)
    aggregator = fl.MaskedAggregator(threshold=0.5, fixed_point=fixed)
    given = updates(11)
    stages = zip((1, 3, 4, 8, 10), (*BEFORE, *AFTER), strict=True)
    outcome, _ = run(aggregator, given, drop_outs=[DropOut(*stage) for stage in stages])
    check_exact(aggregator, given, outcome, [0, 2, 5, 6, 7, 8, 9, 10])


@pytest.mark.parametrize("kind", [*BEFORE, *AFTER])
def test_threshold_is_enough_and_one_less_is_refused_by_name(kind):
    aggregator, given = half(), updates(5)
    lost = [DropOut(client, kind) for client in (0, 2)]
    outcome, _ = run(aggregator, given, drop_outs=lost)
    check_exact(aggregator, given, outcome, [1, 3, 4] if kind in BEFORE else range(5))
    with pytest.raises(RoundError, match=rf"2 of 5 .* {kind!r}, fewer than the threshold 3"):
        run(aggregator, given, drop_outs=[*lost, DropOut(3, kind)])


@pytest.mark.parametrize(("clients", "needed"), [(2, 2), (3, 3), (4, 3), (6, 5), (9, 7), (100, 67)])
def test_threshold_is_more_than_two_thirds(clients, needed):
    aggregator = fl.MaskedAggregator()
    assert aggregator.needed(clients) == needed
    assert 3 * needed > 2 * clients
    assert 2 * half().needed(clients) > clients


def test_range_and_threshold_are_checked_before_anything_is_sent():
    with refused("threshold", "range", value=0.4):
        fl.MaskedAggregator(threshold=0.4)
    with pytest.raises(UpdateError, match="values lie beyond"):
        aggregate(half(), {0: np.zeros(2), 1: np.array([4.1, 0.0])})


def leb128(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


@pytest.mark.parametrize(("clients", "size", "bits"), [(2, 5, 64), (7, 127, 32), (12, 20_000, 32)])
def test_bytes_of_a_client_are_those_of_the_formula(clients, size, bits):
    aggregator = fl.MaskedAggregator(fixed_point=fl.FixedPoint(bits=bits, frac_bits=16, clip=4.0))
    outcome, _ = run(aggregator, updates(clients, size))
    up = 130 * clients + size * bits // 8 + leb128(size) + 376
    for client in range(clients):
        assert outcome.transcript.bytes(sender=client) == up
        down = 282 * clients + 72 * aggregator.needed(clients) + 171
        assert outcome.transcript.bytes(receiver=client) == down


def flipped(name: str, where: tuple[int, ...]) -> Callable[..., object]:
    def change(message: Message, machines: dict[int, Machine]) -> Message:
        array = np.array(message.body[name])
        array[where] ^= 1
        return altered(message, **{name: array})

    return change


def cut(name: str) -> Callable[..., object]:
    return lambda message, machines: altered(message, **{name: message.body[name][1:]})


def test_values_that_come_twice_are_added_once_and_their_client_is_left_out_from_then_on():
    """The server adds them as they come, and keeps none."""
    aggregator, given = half(), updates(6)
    outcome, machines = run(aggregator, given, tamper("masked", lambda m, _: [m, m], 2))
    reason = "a message of kind 'masked' out of turn"
    assert outcome.refusals == (Refusal(2, reason),)
    check_exact(aggregator, given, outcome, range(6))
    sent = [(entry.message.sender, entry.message.kind) for entry in outcome.transcript]
    assert (2, "consent") not in sent
    kept = [v for v in vars(machines[SERVER]).values() if isinstance(v, np.ndarray)]
    assert [v.shape for v in kept if v.dtype == np.uint32] == [(5,)]


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("consent", flipped("signature", (0,)), "a signature that is not client 2's"),
        ("unmask", cut("keys"), r"'unmask' of client 2 .* shape \(6, 32\)"),
        ("unmask", flipped("keys", (4, 0)), "does not open the share that client 4 dealt it"),
    ],
)
def test_wrong_help_in_unmasking_is_refused_by_name_and_the_sum_stays_exact(kind, change, reason):
    aggregator, given = half(), updates(6)
    outcome, _ = run(aggregator, given, tamper(kind, change, 2), drop_outs=[DropOut(1, kind)])
    (refusal,) = outcome.refusals
    assert refusal.client == 2
    assert re.search(reason, refusal.reason)
    check_exact(aggregator, given, outcome, range(6))


def test_wrong_shares_are_left_out_while_enough_right_ones_are_left():
    aggregator, given = half(), updates(6)
    wrong = flipped("keys", (0, 5))
    outcome, _ = run(aggregator, given, tamper("unmask", wrong, 3, 4))
    assert [refusal.client for refusal in outcome.refusals] == [3, 4]
    check_exact(aggregator, given, outcome, range(6))
    with pytest.raises(RoundError, match="3 of 6 .* threshold 4.*client 3: .* client 4: .* client"):
        run(aggregator, given, tamper("unmask", wrong, 2, 3, 4))


def garbled(*holders: int) -> Callable[..., object]:
    def change(message: Message, machines: dict[int, Machine]) -> Message:
        sealed = np.array(message.body["sealed"])
        sealed[list(holders)] ^= 1
        return altered(message, sealed=sealed)

    return change


def test_shares_that_nobody_can_open_are_left_out_and_too_many_name_their_dealer():
    aggregator, given = half(), updates(6)
    outcome, _ = run(aggregator, given, tamper("shares", garbled(0, 5), 2))
    assert outcome.refusals == ()
    check_exact(aggregator, given, outcome, range(6))
    reason = r"3 shares of client 2's seed .* 4 that are needed; clients \[0, 1, 5\] said"
    with pytest.raises(RoundError, match=reason):
        run(aggregator, given, tamper("shares", garbled(0, 1, 5), 2))


@pytest.mark.parametrize(("kind", "lost"), [("seed", ()), ("mask key", (2,))])
def test_shares_of_another_secret_than_was_advertised_are_found(kind, lost):
    def change(message: Message, machines: dict[int, Machine]) -> Message:
        machines[2]._secrets[kind] = fresh_key()
        return message

    drop_outs = [DropOut(client, "masked") for client in lost]
    with pytest.raises(RoundError, match=f"client 2 dealt shares of another {kind} than it adver"):
        run(half(), updates(6), tamper("advertise", change, 2), drop_outs=drop_outs)


# --- a server that breaks the rules ----------------------------------------------------------


def to_client_0(change: Callable[..., object]) -> Callable[..., object]:
    return lambda m, machines: change(m, machines) if m.receiver == 0 else m


def dropping(kept: list[int], *names: str) -> Callable[..., object]:
    def change(message: Message, machines: dict[int, Machine]) -> Message:
        return altered(message, **{name: message.body[name][kept] for name in names})

    return change


ROSTER = ("clients", "adverts", "signatures")


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("keys", flipped("adverts", (1, 0, 0)), "a signature that is not client 1's"),
        ("keys", dropping([0, 1, 2], *ROSTER), "'keys' lists 3 clients, fewer than the thresh"),
        ("keys", dropping([1, 2, 3, 4, 5], *ROSTER), r"lists clients \(1, 2, .*\), without \[0\]"),
        ("keys", dropping([0, 1, 1, 3, 4, 5], *ROSTER), "not ascending and distinct"),
        ("keys", lambda m, _: altered(m, threshold=2), "names a threshold that is not 4"),
        ("sealed", dropping([0, 1, 2], "clients", "sealed"), "fewer than the threshold 4"),
        ("sealed", cut("sealed"), r"'sealed' of the server must hold .* shape \(6, 2, 49\)"),
        ("survivors", dropping([0, 1, 2], "clients"), "fewer than the threshold 4"),
        ("survivors", dropping([1, 2, 3, 4], "clients"), r"without \[0\]"),
        ("consents", dropping([0, 1, 2], "clients", "signatures"), "fewer than the threshold 4"),
        ("consents", flipped("signatures", (3, 0)), "a signature that is not client 3's"),
    ],
)
def test_client_withdraws_from_a_server_that_lies_to_it(kind, change, reason):
    aggregator, given = half(), updates(6)
    outcome, _ = run(aggregator, given, tamper(kind, to_client_0(change), SERVER))
    first, *_ = outcome.refusals
    assert first.client == 0
    assert re.search(reason, first.reason)
    answer = {"keys": "shares", "sealed": "masked", "survivors": "consent", "consents": "unmask"}
    sent = [(entry.message.sender, entry.message.kind) for entry in outcome.transcript]
    assert (0, answer[kind]) not in sent
    included = range(6) if kind in ("survivors", "consents") else range(1, 6)
    check_exact(aggregator, given, outcome, included)


def test_clients_that_are_told_other_terms_do_not_verify_each_other():
    aggregator, given = half(), updates(6)
    other = Round(number=1, size=5, weights=dict.fromkeys(given, 1))

    def change(machines: dict[int, Machine]) -> None:
        machines[4] = aggregator.client(other, 4, given[4])

    outcome, _ = run(aggregator, given, change)
    assert outcome.refusals == (Refusal(4, "a signature that is not client 4's"),)
    check_exact(aggregator, given, outcome, [0, 1, 2, 3, 5])


def test_server_that_sends_two_lists_of_survivors_gets_no_share_at_all(monkeypatch):
    """It tells half of the clients that client 5 dropped out, to get both of its secrets."""
    monkeypatch.setattr(MaskedServer, "_read_consent", lambda self, m: m.body["signature"])

    def change(message: Message, machines: dict[int, Machine]) -> Message:
        listed = message.body["clients"]
        return altered(message, clients=listed[:5]) if message.receiver < 3 else message

    heard = []

    def note(message: Message, machines: dict[int, Machine]) -> Message:
        heard.append(message)
        return message

    def both(machines: dict[int, Machine]) -> None:
        tamper("survivors", change, SERVER)(machines)
        tamper("unmask", note, *range(6))(machines)

    with pytest.raises(RoundError, match="0 of 6 .* 'unmask', .*client 5: a signature that"):
        run(half(), updates(6), both)
    assert heard == []


Change = Callable[[Message, dict[int, Machine]], object]


def refusal_of_client_0(kind: str, change: Change, *drop_outs: DropOut) -> str:
    """Returns why client 0 withdraws from a round in which the server lies to it."""
    given = updates(6)
    lies = tamper(kind, to_client_0(change), SERVER)
    outcome, _ = run(half(), given, lies, drop_outs=drop_outs)
    check_exact(half(), given, outcome, outcome.included)
    (reason,) = [refusal.reason for refusal in outcome.refusals if refusal.client == 0][:1]
    return reason


def longer(array: np.ndarray, row: np.ndarray | None = None) -> np.ndarray:
    """Returns the array with another row, or its own first one, at its end."""
    return np.concatenate([array, (array[0] if row is None else row)[np.newaxis]])


def listing(extra: int, *names: str) -> Change:
    """Returns a change that lists one client more, with the first client's rows."""

    def change(message: Message, machines: dict[int, Machine]) -> Message:
        rows = {name: longer(message.body[name]) for name in names}
        return altered(message, clients=np.append(message.body["clients"], extra), **rows)

    return change


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("keys", ("adverts", "signatures")),
        ("sealed", ("sealed",)),
        ("survivors", ()),
        ("consents", ("signatures",)),
    ],
)
def test_client_refuses_a_list_with_a_stranger(kind, names):
    reason = refusal_of_client_0(kind, listing(9, *names))
    assert re.search(rf"{kind!r} lists clients .*, of which \[9\] are not among \[0, 1", reason)


def test_client_refuses_a_survivor_who_dealt_no_share():
    reason = refusal_of_client_0("survivors", listing(5), DropOut(5, "shares"))
    assert "of which [5] are not among [0, 1, 2, 3, 4]" in reason


def test_consent_of_a_client_that_is_no_survivor_does_not_count():
    """Client 5 lies with the server: it dropped out, and signs the list of survivors all the same.

    With its signature client 0 would be told of four consents, as many as are needed.
    """

    def change(message: Message, machines: dict[int, Machine]) -> Message:
        liar, listed = machines[5], message.body["clients"]
        signature = liar._sign(liar._roster.survivors(range(5)))
        return altered(
            message,
            clients=np.append(listed[:3], 5),
            signatures=longer(message.body["signatures"][:3], signature),
        )

    reason = refusal_of_client_0("consents", change, DropOut(5, "masked"))
    assert "of which [5] are not among [0, 1, 2, 3, 4]" in reason


@pytest.mark.parametrize(
    ("order", "rule"),
    [([1, 0, 2, 3, 4, 5], "not ascending"), ([0, 1, 1, 2, 3, 4, 5], "and distinct")],
)
def test_client_refuses_a_list_out_of_order(order, rule):
    reason = refusal_of_client_0("survivors", lambda m, _: altered(m, clients=np.array(order)))
    assert rule in reason


@pytest.mark.parametrize(
    ("kind", "names", "reason"),
    [
        ("keys", ("adverts", "signatures"), "the server advertises other keys of client 0"),
        ("consents", ("signatures",), "a signature that is not client 0's"),
    ],
)
def test_client_refuses_its_own_words_of_an_earlier_round(kind, names, reason):
    """Round, clients, weights and survivors are the same, and its old signatures are right."""
    aggregator, given, old = half(), updates(6), {}

    def keep(message: Message, machines: dict[int, Machine]) -> Message:
        old.update({name: message.body[name][0] for name in names})
        return message

    def replay(message: Message, machines: dict[int, Machine]) -> Message:
        body = {name: np.array(message.body[name]) for name in names}
        for name, rows in body.items():
            rows[0] = old[name]
        return altered(message, **body)

    run(aggregator, given, tamper(kind, to_client_0(keep), SERVER))
    outcome, _ = run(aggregator, given, tamper(kind, to_client_0(replay), SERVER))
    assert outcome.refusals[0] == Refusal(0, reason)
    check_exact(aggregator, given, outcome, range(kind == "keys", 6))


@pytest.mark.parametrize("kind", ["keys", "sealed", "survivors", "consents"])
def test_client_answers_a_message_that_comes_twice_once(kind):
    given = updates(6)
    outcome, _ = run(half(), given, tamper(kind, lambda m, _: [m, m], SERVER))
    assert outcome.refusals == ()
    check_exact(half(), given, outcome, range(6))
    sent = [entry.message.kind for entry in outcome.transcript if entry.message.sender == 0]
    assert sent == ["advertise", "shares", "masked", "consent", "unmask"]
