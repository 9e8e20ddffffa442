"""Messages that break the rules, in every arena: they cost their sender alone, by name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from extensions.errors import UpdateError
from fl.chain.token import tag
from fl.protocols import SERVER, Machine, Message, Outcome, Output, Value, aggregate
from tests.fl.conformance.arenas import (
    ALONE,
    ARENAS,
    CLIENTS,
    SIZE,
    check_mean,
    perform,
    sends,
    updates,
)
from tests.helpers.refused import refused

STRANGER = 9
ROGUE = 0
"""The one that deals the key and decrypts under Paillier."""
HONEST = set(range(CLIENTS)) - {ROGUE}
FORGED_IN = [name for name in ARENAS if name not in ("led", "hidden", "lanes")]
"""A client that leads is believed by the experiment's server; the others know of no mean."""
every_arena = pytest.mark.parametrize("name", FORGED_IN)
Forge = Callable[[Message, Machine], object]


def check(name: str, outcome: Outcome, *, named: bool | None) -> None:
    """Asserts that the honest are in an exact mean, and that nobody but the rogue is refused."""
    assert set(outcome.included) >= HONEST
    check_mean(ARENAS[name], updates(ARENAS[name]), outcome)
    refused = {refusal.client for refusal in outcome.refusals}
    assert refused <= {ROGUE}
    if named is not None:
        assert refused == ({ROGUE} if named else set())


def forged(name: str, kind: str, change: Forge) -> Outcome:
    """Returns a round in which the rogue changed a message of the kind; it may not send one."""
    changed: list[Message] = []

    def note(message: Message, machines: Mapping[int, Machine]) -> object:
        changed.append(message)
        return change(message, machines[ROGUE])

    while not changed:
        outcome = perform(ARENAS[name], updates(ARENAS[name]), sends(ROGUE, kind, note))
    return outcome


def sent(name: str) -> dict[str, tuple[str, ...]]:
    """Returns what clients send in a round, by kind: the names of its values."""
    arena = ARENAS[name]
    messages = [entry.message for entry in perform(arena, updates(arena)).transcript]
    return {m.kind: tuple(m.body) for m in messages if m.sender >= 0 and m.kind != "ready"}


JUNK = {
    "missing": None,
    "negative": -1,
    "huge": 2**70,
    "infinite": float("inf"),
    "bytes": b"",
    "text": "x",
    "list": [b""],
    "no array of bytes": np.zeros(0, np.uint8),
    "other shape": np.zeros((2, 3)),
    "no dimension": np.array(1),
    "beyond": np.array([-5, 2**62]),
    "twice": np.array([1, 1]),
}


@every_arena
def test_junk_in_any_field_costs_its_sender_alone(name):
    def without(message: Message, field: str, value: Value | None) -> Message:
        kept = {key: own for key, own in message.body.items() if key != field}
        return replace(message, body=kept if value is None else {**kept, field: value})

    for kind, fields in sent(name).items():
        for field in fields:
            for label, value in JUNK.items():
                outcome = forged(name, kind, lambda m, _, f=field, v=value: without(m, f, v))
                by_chance = (field, label) == ("unproved", "twice")  # client 1 dealt it a share
                check(name, outcome, named=None if by_chance else True)


@every_arena
def test_message_of_another_round_or_kind_is_refused_by_name(name):
    for kind in sent(name):
        check(name, forged(name, kind, lambda m, _: replace(m, round=2)), named=True)
        check(name, forged(name, kind, lambda m, _: replace(m, kind="nonsense")), named=True)


@pytest.mark.parametrize("name", [name for name in ARENAS if name != "led"])
def test_message_that_comes_twice_counts_once(name):
    for kind in sent(name):
        outcome = forged(name, kind, lambda m, _: [m, m])
        check_mean(ARENAS[name], updates(ARENAS[name]), outcome)
        assert {refusal.client for refusal in outcome.refusals} <= {ROGUE}
        assert set(outcome.included) >= HONEST


class Stranger(Machine):
    """Somebody who is not in the round, and says at once what it likes."""

    def start(self, now: float) -> Iterable[Output]:
        bodies: Mapping[str, Mapping[str, Value]] = {
            "update": {"values": np.ones(SIZE, np.float32)},
            "token": {"values": np.ones(SIZE, np.uint32), "users": np.array([STRANGER])},
            "refused": {
                "culprit": 2,
                "reason": "spite",
                "known": 0,
                "attempt": 0,
                "users": np.zeros(0, np.int64),
            },
            "held": {"chain": 0, "attempt": 0, "users": np.array([2, 3])},
            "merged": {"values": np.ones(SIZE, np.uint32)},
            "hello": {"exchange": bytes(32), "modulus": 0},
            "advertise": {"advert": np.zeros((3, 32), np.uint8)},
            "survivors": {"clients": np.array([0, 1])},
            "key": {"modulus": 15},
        }
        for receiver in (SERVER, 1, 2):
            for kind, body in bodies.items():
                yield self.send(receiver, kind, **body)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        return ()


@every_arena
def test_stranger_changes_nothing(name):
    def join(machines: dict[int, Machine]) -> None:
        machines[STRANGER] = Stranger(machines[0].round, STRANGER)

    check(name, perform(ARENAS[name], updates(ARENAS[name]), join), named=False)


FORGED = {
    "attempt": (-1, 1, 3, 2**70),
    "chain": (-1, 7),
    "participants": (1, 2**70),
    "time_limit": (0.0, -1.0),
    "users": ([ROGUE], [4, 4, ROGUE], [STRANGER, ROGUE], [4], []),
    "values": (np.zeros(SIZE - 1, np.uint64), np.zeros(SIZE, np.uint32)),
}


@pytest.mark.parametrize("name", ["chain", "chains"])
@pytest.mark.parametrize("field", FORGED)
def test_token_forged_with_the_key_of_the_link_costs_its_sender_alone(name, field):
    """What is true by chance, such as that nobody came before, is no forgery."""

    def forge(message: Message, machine: Machine) -> Message:
        body = {key: own for key, own in message.body.items() if key != "tag"} | {field: value}
        bare = replace(message, body=body)
        key = machine._inner._sending[message.receiver]
        return replace(bare, body={**body, "tag": tag(bare, key)})

    for value in FORGED[field]:
        by_chance = isinstance(value, list) and value == [ROGUE]
        value = np.array(value, dtype=np.int64) if isinstance(value, list) else value
        check(name, forged(name, "token", forge), named=None if by_chance else True)


def test_advertisement_of_an_earlier_round_is_refused_by_name():
    kept: list[Message] = []

    def replay(message: Message, machine: Machine) -> Message:
        kept.append(message)
        return kept[0]

    check("masked", forged("masked", "advertise", replay), named=False)
    outcome = forged("masked", "advertise", replay)
    check("masked", outcome, named=True)
    assert outcome.refusals[0].reason == f"a signature that is not client {ROGUE}'s"


# Before anything is sent.


@pytest.mark.parametrize("name", ALONE)
def test_update_that_cannot_be_sent_names_its_client(name):
    given = updates(ARENAS[name])
    for wrong, reason in (
        (np.full(SIZE, np.nan), "values of the update are NaN or infinite"),
        (np.append(np.zeros(SIZE - 1), -np.inf), "values of the update are NaN"),
        (np.zeros(SIZE + 1), r"an update of shape \(13,\), not \(12,\)"),
        (np.zeros((SIZE, 1)), r"an update of shape \(12, 1\), not \(12,\)"),
    ):
        with pytest.raises(UpdateError, match=f"^client 2: {reason}"):
            aggregate(ARENAS[name].make(), {**given, 2: wrong})


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_weights_and_numbers_of_short_types_do_not_wrap(name, kind):
    """Six times 100 is beyond either type."""
    given = {kind(client): update for client, update in updates(ARENAS[name]).items()}
    outcome = aggregate(ARENAS[name].make(), given, dict.fromkeys(given, kind(100)))
    expected = sum(given.values()) / len(given)
    np.testing.assert_allclose(outcome.aggregate.mean, expected, rtol=0, atol=2.0**-17)


@pytest.mark.parametrize("name", ALONE)
def test_weights_that_are_none_are_refused(name):
    make, given = ARENAS[name].make, updates(ARENAS[name])
    for weight in (0, -1, 1.5, float("nan")):
        with refused("weight of client 2", "range", value=weight):
            aggregate(make(), given, {**dict.fromkeys(given, 1), 2: weight})
    with refused("weights", "value", [0, 1]):
        aggregate(make(), given, {0: 1, 1: 1})
    with refused("clients", "range", -3):
        aggregate(make(), {**given, -3: given[0]})
