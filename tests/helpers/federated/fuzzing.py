"""Messages that no honest party sends, for every party of a round at every stage."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

import fl
from extensions.errors import MessageError, RoundError
from fl.protocols import Aggregator, Message, Refusal, Round, Value
from fl.round.encoding import DTYPES, SHOWN
from fl.round.machines import Machine, Output, Plan
from fl.round.view import Sent
from fl.simulation import InProcessTransport
from fl.training.session import session_machines
from tests.helpers.federated.masked_rounds import Small

CLIENTS, SIZE = 5, 6
FIXED = fl.FixedPoint(frac_bits=16)
SPARSE = Small(neighbours=2, shares=2, corrupt=0.0)
AGGREGATORS: dict[str, Callable[[], Aggregator]] = {
    "plain": fl.PlainAggregator,
    "chain": lambda: fl.ChainAggregator(FIXED),
    "led": lambda: fl.ChainAggregator(FIXED, led_by="client"),
    "chains": lambda: fl.ChainAggregator(FIXED, chains=2, edges=1),
    "masked": lambda: fl.MaskedAggregator(threshold=0.5, fixed_point=FIXED),
    "sparse": lambda: fl.MaskedAggregator(threshold=0.5, fixed_point=FIXED, graph=SPARSE),
    "paillier": lambda: fl.PaillierAggregator(key_bits=256, insecure_small_key=True),
    "hidden": lambda: fl.PaillierAggregator(key_bits=256, insecure_small_key=True, hide_model=True),
}
LONG = "\x1b[31m\u202e" + "x" * 4000
NUMBERS = (0, 1, -1, 2, 7, 255, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63) - 1, 2**12280, -(2**12280))
LEVEL = 8
"""Most forged messages before a true one."""


def junk(draws: random.Random) -> Value:
    """Returns a value of any type that a message may hold, at its bounds as well."""
    match draws.randrange(7):
        case 0:
            return draws.choice(NUMBERS)
        case 1:
            return draws.choice((0.0, -1.5, 1e308, float("nan"), float("inf")))
        case 2:
            return draws.randbytes(draws.choice((0, 1, 32, 64, 300)))
        case 3:
            return draws.choice(("", "reason", LONG, "\ud7ff\x00"))
        case 4:
            return [junk(draws) for _ in range(draws.randrange(3))]
        case _:
            shape = tuple(draws.choice((0, 1, 3, 5, 32)) for _ in range(draws.randrange(4)))
            dtype = np.dtype(draws.choice(DTYPES))
            data = draws.randbytes(int(np.prod(shape)) * dtype.itemsize)
            return np.frombuffer(data, dtype=dtype).reshape(shape)


def changed(value: Value, draws: random.Random) -> Value:
    """Returns a value of the same type that differs a little."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return draws.choice((value + 1, value - 1, -value, value ^ 1 << draws.randrange(64)))
    if isinstance(value, bytes) and value:
        place = draws.randrange(len(value))
        return value[:place] + bytes([value[place] ^ 1 << draws.randrange(8)]) + value[place + 1 :]
    if isinstance(value, np.ndarray) and value.size:
        other = np.array(value)
        match draws.randrange(3):
            case 0:
                flat = other.reshape(-1)
                flat[draws.randrange(flat.size)] = draws.choice((0, 1, 2, 3, 4, 5, 99))
            case 1:
                other = np.concatenate([other, other[:1]]) if other.ndim else other
            case _:
                other = other[1:] if other.ndim else other
        return other
    return junk(draws)


@dataclass
class Fuzzer(InProcessTransport):
    """A transport that delivers forged messages besides the true ones.

    Attributes:
        draws: which.
        rate: probability with which each forged message is sent.
        seen: true messages of this and other rounds, of which forged ones are made.
        forged: number of forged messages in place of each kind; rare kinds get more.
        delivered: number of forged messages that a machine got.
        refused: number of those that do not decode.
    """

    draws: random.Random
    rate: float
    seen: list[Message]
    forged: Counter[str]
    delivered: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def _deliver(self, message: Message, kept: Sent | None) -> Iterator[Output]:
        receiver = message.receiver
        self.seen.append(message)
        del self.seen[:-400]
        kind = message.kind
        for _ in range(LEVEL):
            rare = self.forged[kind] * len(self.forged) < self.forged.total()
            if receiver not in self.vanished and self.draws.random() < self.rate * (1 + 3 * rare):
                self.forged[kind] += 1
                yield from self._forged(message)
        yield from super()._deliver(message, kept)

    def _forged(self, true: Message) -> Iterator[Output]:
        data = forge(true, self.seen, self.draws).encode()
        if self.draws.random() < 0.2:
            place = self.draws.randrange(len(data))
            data = data[:place] + self.draws.randbytes(1) + data[place + 1 :]
        try:
            message = Message.decode(data)
        except MessageError:
            self.refused += 1
            return
        self.delivered += 1
        other = self.draws.choice([p for p in self._machines if p != true.receiver])
        sender = other if self.draws.random() < 0.2 else true.sender
        heard = replace(message, sender=sender, receiver=true.receiver)
        for output in self._machines[true.receiver].receive(heard, self.now):
            if isinstance(output, Refusal):
                assert len(output.reason) <= SHOWN
                assert output.reason.isprintable()
            yield output


def forge(true: Message, seen: Sequence[Message], draws: random.Random) -> Message:
    """Returns a message in a true one's place, made of it or of another that was seen."""
    model = true if draws.random() < 0.8 else draws.choice(seen)
    body = dict(model.body)
    for _ in range(draws.choice((0, 1, 1, 1, 1, 2))):
        name = draws.choice([*body, *body, "more"])
        match draws.randrange(5):
            case 0:
                body.pop(name, None)
            case 1 | 2:
                body[name] = junk(draws)
            case _:
                body[name] = changed(body.get(name, 0), draws)
    number = true.round if draws.random() < 0.95 else draws.choice((0, 2, 2**63 - 1))
    kind = model.kind if draws.random() < 0.95 else draws.choice((LONG, "", "begin"))
    sizes = {name: value for name, value in body.items() if _fits(value)}
    return replace(model, round=number, kind=kind, body=sizes)


def _fits(value: Value) -> bool:
    return not isinstance(value, int) or value.bit_length() < 12_288


def machines(aggregator: Aggregator, number: int) -> dict[int, Machine]:
    """Returns those of a whole round, in which the model is all zeros and updates are constant."""
    start = np.zeros(SIZE, dtype=np.float32)
    plan = Plan(cohort=CLIENTS, population=CLIENTS)
    weights = {client: client + 1 for client in range(CLIENTS)}
    round = Round(number=number, size=SIZE, weights=weights, plan=plan)
    return session_machines(
        round,
        start,
        aggregator,
        lambda client, received: np.full(SIZE, 0.25 * client),
        timeout=60.0,
        training_seconds=0.0,
    )


def fuzz(name: str, forged: int, seed: int) -> tuple[int, int]:
    """Runs rounds until so many forged messages were delivered to machines of an aggregator.

    Returns:
        the numbers of rounds that ended with a mean, and of those that failed.
    """
    draws, aggregator = random.Random(f"{name} {seed}"), AGGREGATORS[name]()
    seen: list[Message] = []
    counts: Counter[str] = Counter()
    delivered = ended = failed = 0
    while delivered < forged:
        transport = Fuzzer(draws, draws.choice((0.002, 0.01, 0.05, 0.3)), seen, counts)
        try:
            outcome = transport.run(machines(aggregator, 1))
            assert np.all(np.isfinite(outcome.aggregate.mean))
            ended += 1
        except RoundError:
            failed += 1
        delivered += transport.delivered
    return ended, failed
