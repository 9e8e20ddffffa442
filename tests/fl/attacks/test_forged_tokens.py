"""Tokens that a client of a chain forges with its own keys, on links of all speeds.

The client has every key that the protocol gives it, so that all tags are right. Reports and
complaints arrive in any order. Whatever it sends, it alone is named, and the others' exact mean
comes out; only a client that lies to the server as well can do more.
"""

import secrets
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import fl
from fl.chain.client import ChainClient
from fl.chain.token import Token
from fl.protocols import SERVER, Machine, Message, Outcome, Party, Round
from fl.simulation import DropOut, InProcessTransport, Link, Network
from tests.helpers.federated.masked_rounds import Tampering

CLIENTS, ROGUE, SIZE = range(6), 0, 5
HONEST = [client for client in CLIENTS if client != ROGUE]
POINT = fl.FixedPoint(bits=32, frac_bits=16, clip=4.0)
UPDATES = dict(enumerate(np.random.default_rng(0).integers(-3000, 3000, (6, SIZE)) / 2.0**10))
AGGREGATORS: dict[str, Callable[[], fl.ChainAggregator]] = {
    "to the server": lambda: fl.ChainAggregator(POINT, timeout=7.0),
    "to an edge": lambda: fl.ChainAggregator(POINT, chains=2, edges=1, timeout=7.0),
}
ROUNDS = 25
CHANCE = secrets.SystemRandom()
Act = Callable[[ChainClient, Message], list[Message]]


def forged(sent: Message, **changes: object) -> Token:
    body = {key: value for key, value in sent.body.items() if key != "tag"}
    return Token(**{**body, "users": users(sent), **changes})  # type: ignore[arg-type]


def users(sent: Message) -> tuple[int, ...]:
    return tuple(sent.body["users"].tolist())  # type: ignore[union-attr]


def given(client: ChainClient, token: Token, to: Sequence[int]) -> list[Message]:
    keys = client._sending
    return [token.message(client, k, "token", keys[k]) for k in to if k in keys]


def others(sent: Message) -> list[int]:
    return [k for k in HONEST if k not in (*users(sent), sent.receiver)]


def as_the_first(client: ChainClient, sent: Message) -> list[Message]:
    return given(client, forged(sent, users=(ROGUE,)), [sent.receiver])


def without_one_before(client: ChainClient, sent: Message) -> list[Message]:
    before = users(sent)[:-1]
    left_out = CHANCE.choice(before) if before else None
    kept = tuple(k for k in users(sent) if k != left_out)
    return given(client, forged(sent, users=kept), [sent.receiver])


def to_all(client: ChainClient, sent: Message) -> list[Message]:
    return [sent, *given(client, forged(sent), others(sent))]


def to_a_second(client: ChainClient, sent: Message) -> list[Message]:
    return [sent, *given(client, forged(sent), others(sent)[:1])]


def to_another(client: ChainClient, sent: Message) -> list[Message]:
    return given(client, forged(sent), others(sent)[:1]) or [sent]


def as_the_first_to_all(client: ChainClient, sent: Message) -> list[Message]:
    return [sent, *given(client, forged(sent, users=(ROGUE,)), HONEST)]


def as_the_first_before(client: ChainClient, sent: Message) -> list[Message]:
    some = CHANCE.sample(HONEST, 2)
    return [*given(client, forged(sent, users=(ROGUE,)), some), sent]


def of_the_next_attempt(client: ChainClient, sent: Message) -> list[Message]:
    attempt = sent.integer("attempt") + 1
    return [sent, *given(client, forged(sent, attempt=attempt), HONEST)]


def of_the_last_attempt(client: ChainClient, sent: Message) -> list[Message]:
    attempt = max(0, sent.integer("attempt") - 1)
    return [sent, *given(client, forged(sent, attempt=attempt), HONEST)]


ACTS: list[Act] = [
    as_the_first,
    without_one_before,
    to_all,
    to_a_second,
    to_another,
    as_the_first_to_all,
    as_the_first_before,
    of_the_next_attempt,
    of_the_last_attempt,
]


def run(
    aggregator: fl.ChainAggregator,
    act: Act,
    *,
    silent: bool = False,
    drop_outs: Sequence[DropOut] = (),
) -> Outcome:
    round = Round(number=2, size=SIZE, weights=dict.fromkeys(CLIENTS, 1))
    machines: dict[Party, Machine] = {
        client: aggregator.client(round, client, UPDATES[client]) for client in CLIENTS
    }
    machines |= {SERVER: aggregator.server(round), **aggregator.others(round)}
    inner = machines[ROGUE]
    machines[ROGUE] = Tampering(inner, "token", lambda sent: act(inner, sent))  # type: ignore[arg-type]
    if silent:
        machines[ROGUE] = Tampering(machines[ROGUE], "passed", lambda sent: [])
    pairs = [(a, b) for a in machines for b in machines]
    links = {pair: Link(delay=CHANCE.uniform(0.02, 0.5)) for pair in pairs}
    return InProcessTransport(Network(links=links), drop_outs).run(machines)


def check(outcome: Outcome, honest: Sequence[int]) -> None:
    """Asserts that none of these is refused, and that the mean is exact and has them all."""
    assert not {refusal.client for refusal in outcome.refusals} & set(honest), outcome.refusals
    assert set(outcome.included) >= set(honest)
    mean = np.sum([UPDATES[k] for k in outcome.included], axis=0) / len(outcome.included)
    np.testing.assert_array_equal(outcome.aggregate.mean, mean)


@pytest.mark.parametrize("silent", [False, True], ids=["reported", "silent"])
@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_forged_tokens_cost_their_sender_alone_in_whatever_order_reports_arrive(act, name, silent):
    for _ in range(ROUNDS):
        check(run(AGGREGATORS[name](), act, silent=silent), HONEST)


def test_client_that_took_a_forged_token_hands_on_the_true_one_when_it_is_asked_to():
    """The rogue forges the token that it is asked for again, once a client is gone."""
    gone = HONEST[-1]

    def act(client: ChainClient, sent: Message) -> list[Message]:
        return as_the_first(client, sent) if sent.integer("attempt") else [sent]

    for _ in range(8 * ROUNDS):
        outcome = run(AGGREGATORS["to the server"](), act, drop_outs=[DropOut(gone, "token")])
        check(outcome, HONEST[:-1])


@pytest.mark.parametrize(
    "act", [each for each in ACTS if each is not to_another], ids=lambda act: act.__name__
)
def test_forged_tokens_cost_their_sender_alone_where_a_client_drops_out(act):
    """But where the one that is gone was given another's token: nobody is left to tell of it."""
    for _ in range(2 * ROUNDS):
        drop_out = DropOut(HONEST[-1], "token")
        check(run(AGGREGATORS["to the server"](), act, drop_outs=[drop_out]), HONEST[:-1])
