"""Rounds in which the server lies, and what it reads of one client's update."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import fl
from extensions.errors import RoundError
from fl.clients import ClientRound, LocalSGD
from fl.leakage import ciphertexts, running_sums, vectors_sent
from fl.masked import ciphers, shamir
from fl.masked.sparse.terms import SparseTerms
from fl.masked.terms import MASK_KEY, SECRETS, SEED, Terms
from fl.paillier import PrivateKey, ShortRandomness, decrypt
from fl.paillier.hidden.server import HidingServer
from fl.paillier.packing import as_integers, as_rows
from fl.protocols import (
    SERVER,
    Aggregator,
    Leaks,
    Machine,
    Message,
    Outcome,
    Output,
    Refusal,
    Round,
    Transcript,
    Vector,
)
from fl.training.session import SessionServer, session_machines
from fl.weights import Weights, get_weights, set_weights
from tests.helpers.federated.carriers import InOneProcess, Requests, settings_of
from tests.helpers.federated.masked_rounds import Small

CLIENTS, VICTIM, COLLUDER = 7, 0, 6
FIXED = fl.FixedPoint(frac_bits=24)
SPARSE = Small(shares=2, corrupt=0.0)
"""Graphs in which a client has four neighbours, of whom two can replace it."""
UNIT = 2.0**-18
"""A value counts as read if it is this close: the fixed point and single precision are closer."""
AGGREGATORS: dict[str, Callable[[], Aggregator]] = {
    "plain": fl.PlainAggregator,
    "chain": lambda: fl.ChainAggregator(FIXED),
    "led": lambda: fl.ChainAggregator(FIXED, led_by="client"),
    "masked": lambda: fl.MaskedAggregator(fixed_point=FIXED),
    "sparse": lambda: fl.MaskedAggregator(fixed_point=FIXED, graph=SPARSE),
    "paillier": lambda: fl.PaillierAggregator(
        fixed_point=FIXED, key_bits=512, insecure_small_key=True
    ),
    "hidden": lambda: fl.PaillierAggregator(
        fixed_point=FIXED,
        key_bits=512,
        insecure_small_key=True,
        hide_model=True,
        model_range=256.0,
    ),
}
WEIGHTS = {client: 2 + client % 3 for client in range(CLIENTS)}
"""Records of each client."""


def model() -> nn.Module:
    """Returns a model of 51 values; the last three are the biases of the outputs."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


def dead(weights: Weights) -> Weights:
    """Returns the model with every ReLU at 0: only the biases of the outputs have gradients."""
    changed = weights.copy()
    changed[24:30] = -100.0
    return changed


def records(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(client)
    count = WEIGHTS[client]
    return torch.randn(count, 4, generator=draws), torch.arange(count) % 3


def trained(client: int, received: Weights) -> Vector:
    """Returns what one step on the client's records changes in the model that it received."""
    return _trained(client, received.tobytes()).copy()


@functools.cache
def _trained(client: int, weights: bytes) -> Vector:
    """A round trains as the one before did, where it sends the same model."""
    own, received = model(), np.frombuffer(weights, np.float32).copy()
    set_weights(own, received)
    sgd = LocalSGD(epochs=1, batch_size=None, lr=0.5, loss=cross_entropy)
    sgd(own, TensorDataset(*records(client)), ClientRound(number=1, client=client, seed=1))
    return get_weights(own).astype(np.float64) - received


class Gullible(Terms):
    """Terms whose holder takes every signature."""

    def verify(self, client: int, signature: object, signed: bytes) -> None:
        return


class Lying(Aggregator):
    """The aggregator as a server has it that checks nothing, and need not be the protocol's."""

    def __init__(
        self,
        inner: Aggregator,
        server: Callable[[Round], Machine] | None = None,
    ) -> None:
        self.inner, self._server = inner, server
        self.min_clients = 1

    def server(self, round: Round) -> Machine:
        machine = (self._server or self.inner.server)(round)
        if hasattr(machine, "_terms"):
            machine._terms = gullible(machine._terms)
        return machine

    def client(self, round: Round, client: int, update: Vector) -> Machine:
        raise NotImplementedError

    def leaks_to(self, coalition: fl.Coalition, outcome: Outcome) -> Leaks:
        raise NotImplementedError


def gullible(terms: Terms) -> Terms:
    """Returns the terms of a server that takes every signature."""
    kind = type("Gullible", (Gullible, type(terms)), {})
    made: Terms = kind(**{field.name: getattr(terms, field.name) for field in fields(terms)})
    return made


@dataclass
class Play:
    """One round as it went, and what the attackers need to read it.

    Attributes:
        updates: of each client that trained.
        outcome: None if the round failed.
    """

    aggregator: Aggregator
    round: Round
    transcript: Transcript
    machines: dict[int, Machine]
    updates: dict[int, Vector]
    outcome: Outcome | None = None
    refusals: list[Refusal] = field(default_factory=list)


Change = Callable[[dict[int, Machine]], None]
carry: type[InOneProcess] | type[Requests] = InOneProcess
"""What carries the rounds that are played; tests set it."""


def play(
    aggregator: Aggregator,
    *,
    weights: Mapping[int, int] = WEIGHTS,
    server: Callable[[Round], Machine] | None = None,
    model_of: Callable[[int, Weights], Weights] = lambda client, weights: weights,
    change: Change = lambda machines: None,
    train: Callable[[int, Weights], Vector] = trained,
    start: Weights | None = None,
    lying: bool = True,
) -> Play:
    """Plays a whole round of all clients with a server that announces what it likes.

    What carries it is `carry`.

    Args:
        aggregator: of the clients, and as far as it goes of the server.
        weights: clients that the server invites, and the weights that it announces.
        server: makes the server's machine of the protocol, in place of the aggregator's.
        model_of: from a client and the true model to the one that it is sent.
        change: of all machines, before the round.
        train: from a client and its model to its update.
        start: the true model; that of `model` unless given.
        lying: whether the server deviates at all; else it is the library's.
    """
    start = get_weights(model()) if start is None else start
    plan = settings_of(aggregator).plan(CLIENTS)
    round = Round(number=1, size=start.size, weights=WEIGHTS, plan=plan)
    updates: dict[int, Vector] = {}

    def update(client: int, received: Weights) -> Vector:
        updates[client] = train(client, received)
        return updates[client]

    machines = session_machines(
        round, start, aggregator, update, timeout=60.0, training_seconds=0.0
    )
    if lying:
        announced = replace(round, weights=dict(weights), plan=replace(plan, cohort=0))
        liar: Machine = SessionServer(announced, start, Lying(aggregator, server), (), 60.0)
        if aggregator.hides_model:
            all_of_them = session_machines(
                announced, start, aggregator, update, timeout=60.0, training_seconds=0.0
            )
            liar = all_of_them[SERVER]
        machines[SERVER] = Sending(liar, model_of, start)
    carrier = carry.of(aggregator, round, update)
    machines |= carrier.seats()
    change(machines)
    outcome = None
    with suppress(RoundError):
        outcome = carrier.run(machines)
    transcript, refusals = carrier.transcript, carrier.refusals
    return Play(aggregator, round, transcript, machines, updates, outcome, refusals)


class Sending(Machine):
    """A session's server that sends each client a model of its own, or its difference encrypted."""

    def __init__(
        self,
        inner: Machine,
        model_of: Callable[[int, Weights], Weights],
        start: Weights,
    ) -> None:
        super().__init__(inner.round, inner.party)
        self.inner, self.model_of, self.first = inner, model_of, start

    def changed(self, output: Output) -> Output:
        if not isinstance(output, Message) or output.kind not in ("model", "key"):
            return output
        wanted = self.model_of(output.receiver, self.first)
        if output.kind == "model":
            return replace(output, body={"values": wanted})
        if not isinstance(self.inner, HidingServer):
            return output
        scale, key = self.inner._scale, self.inner._key
        assert key is not None
        units = np.rint(np.ldexp(wanted.astype(np.float64) - self.first, scale.bits))
        plain = scale.packing.pack(units.astype(np.int64), key.n)
        encrypt = ShortRandomness(key).encrypt
        rows = as_rows([encrypt(text) for text in plain], scale.key_bits // 4)
        return replace(output, body={**output.body, "model": rows})

    def start(self, now: float) -> Iterator[Output]:
        yield from map(self.changed, self.inner.start(now))

    def receive(self, message: Message, now: float) -> Iterator[Output]:
        yield from map(self.changed, self.inner.receive(message, now))

    def expire(self, timer: str, now: float) -> Iterator[Output]:
        yield from map(self.changed, self.inner.expire(timer, now))


def innermost(machine: Machine) -> Machine:
    """Returns a party's machine of the protocol."""
    while True:
        inner = getattr(machine, "inner", None) or getattr(machine, "_inner", None)
        if inner is None:
            return machine
        machine = inner


# --- what a server reads -------------------------------------------------------------------------


def recovered(truth: Vector, readings: list[Vector]) -> int:
    """Returns how many of the larger values of the update the best reading has."""
    large = np.abs(truth) > 1e-3
    assert large.sum() > 20
    return max((int(np.sum(np.abs(r - truth)[large] < UNIT)) for r in readings), default=0)


def readings(played: Play, *colluders: int) -> list[Vector]:
    """Returns all that server and colluders read as the victim's update, most of it nonsense."""
    coalition = fl.Coalition(colluders, server=True)
    view, size = played.transcript.view(coalition), played.round.size
    weight = WEIGHTS[VICTIM]
    found = [*vectors_sent(view, VICTIM, size)]
    found += [row / weight for row in [*found, *running_sums(view, VICTIM, size)]]
    if isinstance(played.aggregator, fl.PaillierAggregator):
        found += _decrypted(played, view, colluders)
    if isinstance(played.aggregator, fl.MaskedAggregator):
        found += _unmasked(played, colluders)
    mean = mean_seen(played, *colluders)
    if mean is not None:
        found += _of_the_sum(played, mean, colluders)
    return found


def mean_seen(played: Play, *colluders: int) -> Vector | None:
    """Returns the mean as server and colluders have it; None if there is none.

    Where it is encrypted they decrypt it, or without a key read it as if nothing blinded it.
    """
    if played.outcome is None:
        return None
    if not isinstance(played.aggregator, fl.PaillierAggregator) or not played.aggregator.hide_model:
        return played.outcome.aggregate.mean
    scale, key = played.aggregator._scale, stolen_or_held(played, *colluders)
    sent = [m for m in played.transcript.view(fl.Coalition(server=True)) if m.kind == "mean"]
    rows = as_integers(np.asarray(sent[0].body["mean"]))
    n = innermost(played.machines[SERVER])._key.n
    texts = [decrypt(key, row) if key else (row - 1) // n for row in rows]
    values = scale.packing.slots_of(texts, n)[: played.round.size]
    return np.ldexp(values.astype(np.float64), -scale.bits)


def stolen_or_held(played: Play, *colluders: int) -> PrivateKey | None:
    """Returns the private key that server and colluders have, if any."""
    assert isinstance(played.aggregator, fl.PaillierAggregator)
    server = innermost(played.machines[SERVER])
    held = [played.aggregator.held_by(k) for k in colluders]
    return next((key for key in [*held, getattr(server, "stolen", None)] if key), None)


def _of_the_sum(played: Play, mean: Vector, colluders: tuple[int, ...]) -> Iterator[Vector]:
    """Yields the sum, for others who added nothing, and less what colluders added."""
    assert played.outcome is not None
    announced = innermost(played.machines[SERVER]).round.weights
    included = played.outcome.included
    total = mean * sum(announced[k] for k in included)
    for gone in ((), [k for k in colluders if k in included]):
        rest = total - sum(announced[k] * played.updates[k] for k in gone)
        yield from (rest / announced.get(VICTIM, 1), rest / WEIGHTS[VICTIM])


def _decrypted(played: Play, view: list[Message], colluders: tuple[int, ...]) -> Iterator[Vector]:
    """Yields the victim's update under a colluder's key, and what was decrypted for the server."""
    aggregator, size = played.aggregator, played.round.size
    assert isinstance(aggregator, fl.PaillierAggregator)
    server = innermost(played.machines[SERVER])
    if aggregator.hide_model:
        packing = aggregator._scale.packing
    else:
        packing = aggregator._packing(server.round.weights.values())
    if (key := stolen_or_held(played, *colluders)) is not None:
        for row in ciphertexts(view, VICTIM, size, packing, key, frac_bits=24):
            yield row / WEIGHTS[VICTIM]
    for message in view:
        if message.kind == "sum" and (key := aggregator.held_by(VICTIM)) is not None:
            rows = [int.from_bytes(row.tobytes(), "little") for row in message.body["plaintexts"]]
            values = packing.slots_of(rows, key.public.n)[:size]
            yield np.ldexp(values.astype(np.float64), -24) / WEIGHTS[VICTIM]


def _unmasked(played: Play, colluders: tuple[int, ...]) -> Iterator[Vector]:
    """Yields the victim's masked values without all masks that follow from the messages."""
    received = played.transcript.received
    sent = received(SERVER, "masked")
    victim = innermost(played.machines[VICTIM])
    roster = getattr(victim, "_roster", None)
    if roster is None:
        return
    secrets = dict(_secrets(played, colluders))
    for message in sent:
        if message.sender != VICTIM:
            continue
        values = np.array(message.body["values"])
        for seed in [secrets.get((VICTIM, SEED))]:
            if seed is not None:
                key = ciphers.derive(seed, roster.session, "individual mask", VICTIM)
                values -= ciphers.mask(key, values.size, values.dtype)
        for peer in masked_with(victim):
            for one, other in ((VICTIM, peer), (peer, VICTIM)):
                if (one, MASK_KEY) in secrets:
                    own = ciphers.private_key(secrets[one, MASK_KEY])
                    pair = ciphers.agree(own, roster.mask_key(other), other)
                    session = roster.pair(VICTIM, peer)
                    ciphers.add_pair_mask(values, pair, session, VICTIM, peer, sign=-1)
                    break
        yield np.ldexp(values.view(np.int64).astype(np.float64), -24) / WEIGHTS[VICTIM]


def masked_with(client: Machine) -> list[int]:
    """Returns the clients with whom a client of masked aggregation has masks."""
    dealt = getattr(client, "_dealt", None)
    others = client._dealers if dealt is None else dealt.intersection(client._roster.clients)
    return sorted(set(others) - {client.party})


def holders_of(client: Machine) -> tuple[int, ...]:
    """Returns the clients to whom a client of masked aggregation deals shares."""
    return tuple(getattr(client, "holders", client._roster.clients))


def _secrets(played: Play, colluders: tuple[int, ...]) -> Iterator[tuple[tuple[int, str], bytes]]:
    """Yields every secret that t opened shares, or a colluder's own knowledge, give."""
    terms = innermost(played.machines[VICTIM])._terms
    needed = terms.degree.needed if isinstance(terms, SparseTerms) else terms.threshold
    for client in colluders:
        for kind in SECRETS:
            yield (client, kind), innermost(played.machines[client])._secrets[kind]
    for dealt in played.transcript.received(SERVER, "shares"):
        for column, kind in enumerate(SECRETS):
            shares = {}
            for place, holder in enumerate(holders_of(innermost(played.machines[dealt.sender]))):
                cell = dealt.body["sealed"][place, column].tobytes()
                for key in _keys(played, dealt.sender, kind, holder, colluders):
                    if (share := ciphers.unseal(key, cell)) is not None:
                        shares[holder + 1] = share
            if len(shares) >= needed:
                taken = dict(list(shares.items())[:needed])
                if (secret := shamir.reconstruct(taken)) is not None:
                    yield (dealt.sender, kind), secret


def _keys(
    played: Play, dealer: int, kind: str, holder: int, colluders: tuple[int, ...]
) -> Iterator[bytes]:
    machine = innermost(played.machines[holder])
    for opened in played.transcript.received(SERVER, "unmask"):
        if opened.sender == holder and dealer in machine._dealers:
            yield opened.body["keys"][machine._dealers.index(dealer)].tobytes()
    if holder in colluders and machine._agreed:
        yield machine._sealing_key(kind, dealer, holder)
