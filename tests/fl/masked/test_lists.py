"""A server that lists strangers, or replays messages, gets nothing from a client."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from fl.protocols import SERVER, Machine, Message, Refusal
from fl.simulation import DropOut
from tests.helpers.federated.masked_rounds import altered, check_exact, half, run, tamper, updates

Change = Callable[[Message, dict[int, Machine]], object]


def to_client_0(change: Change) -> Change:
    return lambda message, machines: change(message, machines) if message.receiver == 0 else message


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
    [([1, 0, 2, 3, 4, 5], "not in ascending order"), ([0, 1, 1, 2, 3, 4, 5], "and each once")],
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


def test_server_refuses_a_message_of_another_round():
    def old(message: Message, machines: dict[int, Machine]) -> Message:
        return Message(round=2, sender=2, receiver=SERVER, kind=message.kind, body=message.body)

    given = updates(6)
    outcome, _ = run(half(), given, tamper("masked", old, 2))
    assert outcome.refusals == (Refusal(2, "a message of round 2, not 1"),)
    check_exact(half(), given, outcome, [0, 1, 3, 4, 5])
