"""One arena an aggregator: how it is made, what its mean may be off, and what it does with whom.

The rounds are whole ones, from the model to the mean, so that every aggregator is in the same.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import fl
from fl.protocols import Aggregator, Machine, Message, Outcome, Round, Vector
from fl.round.machines import Plan
from fl.simulation import DropOut, InProcessTransport
from fl.training.session import session_machines
from tests.helpers.federated.masked_rounds import Small, altered, half, sparse, tamper

CLIENTS, SIZE, LOST = 6, 12, ((1,), (0, 4))
TIMEOUT = 7.0
Change = Callable[[Message, Mapping[int, Machine]], object]
NOT = "no {} within 7 s"
SOMETIMES = "sometimes"
"""In place of a reason: whether the client is in the mean depends on where it is on its chain."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Arena:
    """An aggregator, and what the laws hold it to.

    Attributes:
        make: a new one.
        unit: what its mean may be off; 0: nothing, in the ring of its fixed point.
        lost: what is said of a client that vanishes before or after it sends a kind; None:
            nothing, for it is in the mean.
        clients: who they are in this, where that is not `LOST`.
        forged: messages of client 2 that cost it the place, and why.
        grows: bytes that all send more in a round of so many more values, a multiple of 20.
        sent: what a client sends in place of its update.
    """

    make: Callable[..., Aggregator]
    unit: float = 0.0
    lost: Mapping[tuple[str, str], str | None]
    clients: Mapping[tuple[str, str], int] = field(default_factory=dict)
    forged: Sequence[tuple[str, Change, str]] = ()
    grows: Callable[[int], float]
    sent: Callable[[Vector], Vector] = lambda update: update


@functools.cache
def updates(arena: Arena, size: int = SIZE) -> dict[int, Vector]:
    """Returns the update of each client, in [-1, 1) and of single precision."""
    draws = np.random.default_rng(size).uniform(-1, 1, (CLIENTS, size)).astype(np.float32)
    return {client: arena.sent(row.astype(np.float64)) for client, row in enumerate(draws)}


def perform(
    arena: Arena,
    given: Mapping[int, Vector],
    change: Callable[[dict[int, Machine]], None] = lambda machines: None,
    drop_outs: Sequence[DropOut] = (),
) -> Outcome:
    """Returns a round in which client k weighs k + 1, and some parties are changed."""
    aggregator, size = arena.make(), given[0].size
    plan = Plan(cohort=CLIENTS, population=CLIENTS)
    round = Round(number=1, size=size, weights={k: k + 1 for k in given}, plan=plan)
    start = np.zeros(size, dtype=np.float32)
    machines = session_machines(
        round, start, aggregator, lambda k, _: given[k], timeout=TIMEOUT, training_seconds=0.0
    )
    change(machines)
    return InProcessTransport(drop_outs=drop_outs).run(machines)


def check_mean(arena: Arena, given: Mapping[int, Vector], outcome: Outcome) -> None:
    """Asserts that the mean is that of those who are included, each counted once."""
    weight = sum(client + 1 for client in outcome.included)
    point = arena.make().fixed_point
    if arena.unit or point is None:
        mean = sum((client + 1) * given[client] for client in outcome.included) / weight
        np.testing.assert_allclose(outcome.aggregate.mean, mean, rtol=1e-12, atol=arena.unit)
        return
    rows = [point.encode(given[client], client + 1) for client in outcome.included]
    total = np.sum(rows, axis=0, dtype=point.dtype)
    np.testing.assert_array_equal(outcome.aggregate.mean, point.decode(total, weight))


def body(**changed: Any) -> Change:
    """Returns a change of values of a message, each a value or a function of the old one."""

    def change(message: Message, machines: Mapping[int, Machine]) -> Message:
        new = {k: v(message.body[k]) if callable(v) else v for k, v in changed.items()}
        return altered(message, **new)

    return change


def flipped(array: np.ndarray) -> np.ndarray:
    """Returns the array with another first byte."""
    other = np.array(array)
    other.reshape(-1)[0] ^= 1
    return other


def first(integer: Callable[[int], int]) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a change of the first ciphertext."""

    def change(rows: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        number = integer(int.from_bytes(rows[0].tobytes(), "little"))
        rows[0] = np.frombuffer(number.to_bytes(64, "little"), dtype=np.uint8)
        return rows

    return change


def advertises(row: int, key: Callable[[Mapping[int, Machine]], bytes]) -> Change:
    """Returns a change that puts another key into an advertisement, rightly signed."""

    def change(message: Message, machines: Mapping[int, Machine]) -> Message:
        client = machines[message.sender]._inner
        advert = np.array(message.body["advert"])
        advert[row] = np.frombuffer(key(machines), dtype=np.uint8)
        signed = client._sign(client._terms.advertised(advert))
        return altered(message, advert=advert, signature=signed)

    return change


def _key_of(client: int, row: int) -> Callable[[Mapping[int, Machine]], bytes]:
    return lambda machines: machines[client]._inner._advert[row].tobytes()


READY = {("ready", "before"): "not trained within 7 s"}
UPDATE = {("update", "before"): NOT.format("update"), ("update", "after"): None}
ON_A_CHAIN = {
    (kind, when): SOMETIMES for kind in ("token", "passed", "sum") for when in ("before", "after")
}
LED = {
    (f"lead.{kind}".replace("lead.token", "token"), when): SOMETIMES for kind, when in ON_A_CHAIN
}
MASKING = {
    ("advertise", "before"): NOT.format("'advertise'"),
    ("advertise", "after"): NOT.format("'shares'"),
    ("shares", "before"): NOT.format("'shares'"),
    ("shares", "after"): NOT.format("'masked'"),
    ("masked", "before"): NOT.format("'masked'"),
    **{(kind, when): None for kind in ("consent", "unmask") for when in ("before", "after")},
    ("masked", "after"): None,
}
ENCRYPTING = {
    ("hello", "before"): NOT.format("hello"),
    ("hello", "after"): NOT.format("keys"),
    ("keys", "before"): NOT.format("keys"),
    ("keys", "after"): NOT.format("update"),
    **UPDATE,
}
DEALER = dict.fromkeys(
    [("hello", "after"), ("keys", "before"), ("keys", "after"), ("sum", "before")], 0
)
PLAIN = [("update", body(values=lambda rows: rows * np.float32(np.inf)), "NaN or infinite")]
MASKED = (
    ("advertise", advertises(0, lambda _: bytes(32)), "client 2 .* key of low order"),
    ("advertise", advertises(1, lambda _: b"\x01" + bytes(31)), "client 2 .* of low order"),
    ("advertise", advertises(0, _key_of(1, 1)), "client 2 advertises a key that client 1 has"),
    ("advertise", advertises(1, _key_of(2, 0)), "client 2 advertises a key that client 2 has"),
    ("advertise", body(advert=flipped), "a signature that is not client 2's"),
    ("advertise", lambda m, _: [m, m], "a message of kind 'advertise' out of turn"),
    ("masked", body(unreadable=np.array([9])), r"cannot open shares of clients \[9\], who dealt"),
)
PAILLIER = (
    ("update", body(fingerprint="ab" * 16), f"under key {'ab' * 16}, not [0-9a-f]"),
    ("update", body(ciphertexts=first(lambda _: 0)), "0 bits is no ciphertext under key"),
    ("update", body(ciphertexts=first(lambda _: 2**512 - 1)), "512 bits is no ciphertext under"),
    ("hello", body(exchange=bytes(32)), "a greeting without an X25519 key"),
    ("hello", body(modulus=35), "a key that has not 256 bits"),
)
small_key = partial(fl.PaillierAggregator, key_bits=256, insecure_small_key=True, timeout=TIMEOUT)
ARENAS: dict[str, Arena] = {
    "plain": Arena(
        make=partial(fl.PlainAggregator, timeout=TIMEOUT),
        unit=1e-15,
        lost=READY | UPDATE,
        forged=PLAIN,
        grows=lambda values: CLIENTS * 4 * values,
    ),
    "signds": Arena(
        make=partial(fl.PlainAggregator, timeout=TIMEOUT),
        unit=1e-15,
        lost=READY | UPDATE,
        forged=[
            ("update", body(places=flipped, values=lambda v: v[:0]), "must hold an array 'values'")
        ],
        grows=lambda values: 0,
        sent=lambda update: fl.SignDS(sign_k=0.25, sign_dim_out=3).client(
            update, Round(number=1, size=update.size, weights={0: 1}), 0
        ),
    ),
    "chain": Arena(
        make=partial(fl.ChainAggregator, timeout=TIMEOUT),
        lost=READY | ON_A_CHAIN,
        grows=lambda values: (CLIENTS + 1) * 8 * values,
    ),
    "chains": Arena(
        make=partial(fl.ChainAggregator, chains=2, edges=1, timeout=TIMEOUT),
        lost=READY | ON_A_CHAIN,
        grows=lambda values: (CLIENTS + 2 + 1) * 8 * values,
    ),
    "led": Arena(
        make=partial(fl.ChainAggregator, led_by="client", timeout=TIMEOUT),
        lost=READY | LED,
        clients=dict.fromkeys(LED, 3),
        grows=lambda values: np.nan,
    ),
    "masked": Arena(
        make=half, lost=READY | MASKING, forged=MASKED, grows=lambda values: CLIENTS * 4 * values
    ),
    "lanes": Arena(
        make=partial(
            fl.MaskedAggregator,
            threshold=0.5,
            fixed_point=fl.FixedPoint(frac_bits=16, clip=4.0),
            timeout=TIMEOUT,
            lanes=2,
            graph=Small(neighbours=4, shares=2, corrupt=0.0),
        ),
        lost=READY | MASKING,
        grows=lambda values: CLIENTS * 4 * values,
    ),
    "sparse": Arena(
        make=partial(sparse, neighbours=4, shares=2),
        lost=READY | MASKING,
        forged=MASKED,
        grows=lambda values: CLIENTS * 4 * values,
    ),
    "paillier": Arena(
        make=small_key,
        lost=READY | ENCRYPTING | {("sum", "before"): None},
        clients=DEALER,
        forged=PAILLIER,
        grows=lambda values: (CLIENTS + 1.5) * 64 * values / 10,
    ),
    "hidden": Arena(
        make=partial(small_key, hide_model=True),
        unit=2.0**-18,
        lost=ENCRYPTING | {("applied", "before"): None, ("applied", "after"): None},
        clients=DEALER,
        forged=PAILLIER,
        grows=lambda values: np.nan,
    ),
}


def cases(name: str) -> list[tuple[str, Any]]:
    """Returns each arena's name with each of what it has under a name."""
    return [(arena, one) for arena, own in ARENAS.items() for one in getattr(own, name)]


def sends(party: int, kind: str, change: Change) -> Callable[[dict[int, Machine]], None]:
    """Returns what makes a party send other messages of a kind."""
    return tamper(kind, change, party)


ALONE = ("plain", "chain", "chains", "masked", "paillier")
"""Arenas whose aggregators are tried in rounds and runs of other tests."""
