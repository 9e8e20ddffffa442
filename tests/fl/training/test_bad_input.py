"""Bad input under every aggregator: it is refused by name, and the others' exact mean comes out."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest

import fl
from extensions.errors import UpdateError
from fl.chain.token import tag
from fl.protocols import (
    SERVER,
    Aggregator,
    Machine,
    Message,
    Outcome,
    Output,
    Party,
    Round,
    Value,
    aggregate,
)
from fl.simulation import InProcessTransport, Link, Network
from tests.helpers.federated.masked_rounds import Tampering
from tests.helpers.refused import refused

POINT = fl.FixedPoint(bits=32, frac_bits=16, clip=4.0)
AGGREGATORS: dict[str, Callable[[], Aggregator]] = {
    "plain": lambda: fl.PlainAggregator(timeout=7.0),
    "chain": lambda: fl.ChainAggregator(POINT, timeout=7.0),
    "chains": lambda: fl.ChainAggregator(POINT, chains=2, edges=1, timeout=7.0),
    "masked": lambda: fl.MaskedAggregator(threshold=0.5, fixed_point=POINT, timeout=7.0),
    "Paillier": lambda: fl.PaillierAggregator(
        key_bits=256, insecure_small_key=True, fixed_point=POINT, timeout=7.0
    ),
}
CLIENTS, SIZE, STRANGER = range(6), 5, 9
ROGUE = 0
"""The one that deals the key and decrypts under Paillier."""
HONEST = set(CLIENTS) - {ROGUE}
UPDATES = dict(enumerate(np.random.default_rng(0).integers(-3000, 3000, (6, SIZE)) / 2.0**10))
"""Values that fixed point and single precision have exactly."""
TOKEN = ("chain", "mask", "attempt", "users", "participants", "time_limit", "values", "tag")
SENT: dict[str, dict[str, tuple[str, ...]]] = {
    "plain": {"update": ("values",)},
    "chain": {"token": TOKEN, "passed": ("attempt", "users", "receiver"), "sum": TOKEN},
    "chains": {"token": TOKEN, "passed": ("attempt", "users", "receiver"), "sum": TOKEN},
    "masked": {
        "advertise": ("advert", "signature"),
        "shares": ("sealed",),
        "masked": ("values", "unreadable"),
        "consent": ("signature",),
        "unmask": ("keys",),
    },
    "Paillier": {
        "hello": ("exchange", "modulus"),
        "keys": ("modulus", "exchange", "sealed"),
        "update": ("fingerprint", "ciphertexts"),
        "sum": ("plaintexts",),
    },
}
KINDS = [(name, kind) for name, kinds in SENT.items() for kind in kinds]

every_aggregator = pytest.mark.parametrize("name", AGGREGATORS)
every_kind = pytest.mark.parametrize(("name", "kind"), KINDS)
Machines = dict[Party, Machine]


def run(name: str, change: Callable[[Machines], None]) -> Outcome:
    aggregator = AGGREGATORS[name]()
    round = Round(number=2, size=SIZE, weights=dict.fromkeys(CLIENTS, 1))
    machines: Machines = {k: aggregator.client(round, k, UPDATES[k]) for k in CLIENTS}
    machines |= {SERVER: aggregator.server(round), **aggregator.others(round)}
    change(machines)
    link = Link(delay=0.1)
    return InProcessTransport(Network(server=link, peers=link)).run(machines)


def check(outcome: Outcome, *, named: bool | None) -> None:
    """Asserts that the honest are in an exact mean, and that nobody but the rogue is refused."""
    assert set(outcome.included) >= HONEST
    mean = np.sum([UPDATES[k] for k in outcome.included], axis=0) / len(outcome.included)
    np.testing.assert_array_equal(outcome.aggregate.mean, mean)
    refused = {refusal.client for refusal in outcome.refusals}
    assert refused <= {ROGUE}
    if named is not None:
        assert refused == ({ROGUE} if named else set())


def run_tampered(
    name: str,
    kind: str,
    change: Callable[[Message, Machine], list[Message]],
) -> Outcome:
    """Returns a round in which the rogue changed a message of the kind; it may not send one."""
    changed: list[Message] = []

    def tamper(machines: Machines) -> None:
        inner = machines[ROGUE]
        machines[ROGUE] = Tampering(inner, kind, lambda m: changed.append(m) or change(m, inner))

    while not changed:
        outcome = run(name, tamper)
    return outcome


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


@every_kind
def test_junk_in_any_field_costs_its_sender_alone(name, kind):
    def without(message: Message, field: str, value: Value | None) -> list[Message]:
        kept = {key: own for key, own in message.body.items() if key != field}
        return [replace(message, body=kept if value is None else {**kept, field: value})]

    for field in SENT[name][kind]:
        for value in JUNK.values():
            outcome = run_tampered(name, kind, lambda m, _, f=field, v=value: without(m, f, v))
            check(outcome, named=True)


@every_kind
def test_message_of_another_round_is_refused_by_name(name, kind):
    check(run_tampered(name, kind, lambda m, _: [replace(m, round=1)]), named=True)


@every_kind
def test_message_sent_twice_counts_once(name, kind):
    check(run_tampered(name, kind, lambda m, _: [m, m]), named=None)


@every_kind
def test_message_of_an_unknown_kind_is_refused_by_name(name, kind):
    check(run_tampered(name, kind, lambda m, _: [replace(m, kind="nonsense")]), named=True)


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


@every_aggregator
def test_stranger_changes_nothing(name):
    def join(machines: Machines) -> None:
        machines[STRANGER] = Stranger(machines[0].round, STRANGER)

    check(run(name, join), named=False)


FORGED = {
    "attempt": (-1, 1, 3, 2**70),
    "chain": (-1, 7),
    "participants": (1, 2**70),
    "time_limit": (0.0, -1.0),
    "users": ([ROGUE], [4, 4, ROGUE], [STRANGER, ROGUE], [4], []),
    "values": (np.zeros(SIZE - 1, np.uint32), np.zeros(SIZE, np.uint64)),
}


@pytest.mark.parametrize("name", ["chain", "chains"])
@pytest.mark.parametrize("field", FORGED)
def test_token_forged_with_the_key_of_the_link_costs_its_sender_alone(name, field):
    """What is true by chance, such as that nobody came before, is no forgery."""

    def forge(message: Message, inner: Machine) -> list[Message]:
        body = {key: own for key, own in message.body.items() if key != "tag"} | {field: value}
        bare = replace(message, body=body)
        key = inner._sending[message.receiver]
        return [replace(bare, body={**body, "tag": tag(bare, key)})]

    for value in FORGED[field]:
        by_chance = isinstance(value, list) and value == [ROGUE]
        value = np.array(value, dtype=np.int64) if isinstance(value, list) else value
        check(run_tampered(name, "token", forge), named=None if by_chance else True)


def test_advertisement_of_an_earlier_round_is_refused_by_name():
    aggregator, kept = AGGREGATORS["masked"](), []

    def once(number: int) -> Outcome:
        def replay(message: Message) -> list[Message]:
            kept.append(message)
            return [replace(kept[0], round=number)]

        round = Round(number=number, size=SIZE, weights=dict.fromkeys(CLIENTS, 1))
        machines: Machines = {k: aggregator.client(round, k, UPDATES[k]) for k in CLIENTS}
        machines[ROGUE] = Tampering(machines[ROGUE], "advertise", replay)
        machines[SERVER] = aggregator.server(round)
        return InProcessTransport().run(machines)

    check(once(1), named=False)
    outcome = once(2)
    check(outcome, named=True)
    assert outcome.refusals[0].reason == f"a signature that is not client {ROGUE}'s"


# Before anything is sent.


@every_aggregator
def test_update_that_cannot_be_sent_names_its_client(name):
    for wrong, reason in (
        (np.full(SIZE, np.nan), "values of the update are NaN or infinite"),
        (np.array([0.0, -np.inf, 0.0, 0.0, 0.0]), "values of the update are NaN"),
        (np.zeros(SIZE + 1), r"an update of shape \(6,\), not \(5,\)"),
        (np.zeros((SIZE, 1)), r"an update of shape \(5, 1\), not \(5,\)"),
    ):
        with pytest.raises(UpdateError, match=f"^client 2: {reason}"):
            aggregate(AGGREGATORS[name](), {**UPDATES, 2: wrong})


@every_aggregator
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_weights_and_numbers_of_short_types_do_not_wrap(name, kind):
    """Six times 100 is beyond either type."""
    updates = {kind(client): update for client, update in UPDATES.items()}
    outcome = aggregate(AGGREGATORS[name](), updates, dict.fromkeys(updates, kind(100)))
    expected = sum(UPDATES.values()) / len(UPDATES)
    np.testing.assert_allclose(outcome.aggregate.mean, expected, rtol=0, atol=2.0**-17)


@every_aggregator
def test_weights_that_are_none_are_refused(name):
    for weight in (0, -1, 1.5, float("nan")):
        with refused("weight of client 2", "range", value=weight):
            aggregate(AGGREGATORS[name](), UPDATES, {**dict.fromkeys(UPDATES, 1), 2: weight})
    with refused("weights", "value", [0, 1]):
        aggregate(AGGREGATORS[name](), UPDATES, {0: 1, 1: 1})
    with refused("clients", "range", -3):
        aggregate(AGGREGATORS[name](), {**UPDATES, -3: UPDATES[0]})
