"""The aggregator in which the server adds ciphertexts, and clients hold the key to the sum."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from extensions.errors import ArgumentError
from extensions.rules import POSITIVE, Between
from fl.paillier.client import Held, PaillierClient
from fl.paillier.hidden.client import HidingClient
from fl.paillier.hidden.scale import Model, Scale
from fl.paillier.hidden.server import HidingServer, Stored
from fl.paillier.keys import SECURE_BITS, PrivateKey, check_bits
from fl.paillier.packing import Packing
from fl.paillier.server import PaillierServer
from fl.round.aggregator import Aggregator, Leaks, inherent_leaks
from fl.round.machines import Machine, Round, Vector
from fl.round.messages import SERVER, Message, Party, Value
from fl.round.quantization import FixedPoint
from fl.round.state import texts
from fl.round.view import Coalition, Outcome

FIXED_POINT = FixedPoint(frac_bits=16, clip=4.0)
"""Of updates, unless another one is given: 19 bits with their sign."""
MODEL_RANGE = 64.0
"""How far a parameter of a hidden model may move, unless another range is given."""


@dataclass(kw_only=True, eq=False, repr=False)
class PaillierAggregator(Aggregator):
    """Sums encrypted updates: the server adds ciphertexts, and clients hold the private key.

    **All clients share one private key.** The server together with any single client that holds it,
    even one of another round, reads the update of every client. `leaks_to` says so.

    Who holds what:

    - The server asks one client, the lowest-numbered, to make a key. That client seals it for each
      of the others (`fl.paillier.sealing`); the server passes on what it cannot open.
    - A client keeps its key for later rounds. Where only some clients of a round have a key, the
      lowest-numbered owner of the commonest one deals it to the others.
    - The server asks one client that sent an update to decrypt the sum: that client learns the
      mean, as everybody does from the next model. If it does not answer, the next one is asked.

    | kind | from | holds |
    | --- | --- | --- |
    | hello | client to server | X25519 key; n of the key it holds, or 0 |
    | deal | server to dealer | n, or 0 for a new one; the clients without it, their X25519 keys |
    | keys | dealer to server | n; its X25519 key; the private key, sealed for each of those |
    | key | server to client | n, dealer, its X25519 key, the private key sealed for the client |
    | update | client to server | fingerprint of n; ciphertexts |
    | decrypt, sum | server to one client, and back | ciphertexts of the sum; their plaintexts |
    | withdraw | client to server | why it takes no further part |

    Guarantees:
        A server on its own learns only the mean of those included (`fl.paillier.short` has the
        assumptions). A round in which a slot could overflow is rejected before it begins. The mean
        differs from that of the updates by at most half a unit (`FixedPoint`). A client is left out
        if its ciphertexts are malformed, late, or under another key by their fingerprint.

        All parties are assumed to follow the protocol. A malicious server could have a single
        update decrypted, or put its own X25519 key in place of a client's. A malicious client can
        spoil the sum, which is then rejected without its name. A client that decrypts wrongly is
        named once another client's plaintexts are in range.

    Cost:
        Each client sends two messages and gets one; the sum takes two more in all, and so does
        dealing a key. An update is ceil(size / slots) ciphertexts of key_bits / 4 bytes. For
        example, 21,840 values of 3 clients of equal weight at 2048 bits take 226 ciphertexts of 512
        bytes, with 97 slots of 21 bits.

    **With `hide_model`** mean and model are hidden from the server too. All clients have the first
    model. The server keeps, as ciphertexts, how far the model has moved since, and sends that with
    the key. Clients decrypt it, train, and send their updates. The server multiplies the sum by
    1 / weight in fixed point (`fl.paillier.hidden.scale`), adds it to its ciphertexts, and sends it
    to the clients in it, who decrypt and apply it.

    | kind | from | holds |
    | --- | --- | --- |
    | key | server to client | as above; who takes part, with what weight; the model's ciphertexts |
    | mean | server to each client in it | ciphertexts of the mean |
    | applied | client to server | nothing: the mean is in range |
    | end | server to client | who is in the mean |

    It holds against a server that follows the protocol. For one that lies, each client decrypts two
    vectors a round, and only tells whether they are in range. More than half of the clients of a
    run must take part in each round, so that one of them has the model's key. Only clients have the
    model, so a run rejects server optimizers, and mechanisms that change the mean.

    Args:
        key_bits: bits of the key's modulus n.
        packing: put as many values as fit into a ciphertext.
        fixed_point: how updates become integers; the fewer bits, the more slots.
        timeout: seconds that the server waits in each stage for the clients' messages.
        insecure_small_key: allow keys below 2048 bits.
        hide_model: hide mean and model from the server; only for runs.
        model_range: with `hide_model`: how far a parameter may move from its first value, in all
            rounds.

    Raises:
        ArgumentError: a setting out of range.

    Source:
        Paillier, EUROCRYPT 1999; packing after BatchCrypt (Zhang et al., USENIX ATC 2020).

    Examples:
        >>> updates = {0: np.array([1.0, 2.0]), 1: np.array([3.0, 4.0])}
        >>> sealed = fl.PaillierAggregator(key_bits=512, insecure_small_key=True)  # use 2048 bits
        >>> fl.protocols.aggregate(sealed, updates).aggregate.mean.tolist()
        [2.0, 3.0]
    """

    key_bits: int = SECURE_BITS
    packing: bool = True
    fixed_point: FixedPoint = FIXED_POINT
    timeout: float = 60.0
    insecure_small_key: bool = False
    hide_model: bool = False
    model_range: float = MODEL_RANGE
    _held: dict[int, Held] = field(default_factory=dict, init=False, repr=False)
    _stored: Stored = field(default_factory=Stored, init=False, repr=False)
    _first: Model | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_bits(self.key_bits, insecure_small_key=self.insecure_small_key)
        POSITIVE.check("timeout", self.timeout)
        self._packing([1, 1])

    def parameters(self) -> dict[str, Any]:
        names = ("key_bits", "packing", "hide_model", "model_range")
        return {**super().parameters(), **{name: getattr(self, name) for name in names}}

    @property
    def hides_model(self) -> bool:
        return self.hide_model

    @property
    def _scale(self) -> Scale:
        return Scale(
            fixed_point=self.fixed_point,
            range=self.model_range,
            key_bits=self.key_bits,
            packed=self.packing,
        )

    def _packing(self, weights: Collection[int]) -> Packing:
        if self.hide_model:
            self._scale.factor(sum(weights))
            return self._scale.packing
        return Packing.of_round(self.key_bits, self.fixed_point, weights, packed=self.packing)

    def server(self, round: Round) -> Machine:
        self._check_shown()
        packing = self._packing(round.weights.values())
        return PaillierServer(
            round, self.key_bits, packing, self.fixed_point, self.min_clients, self.timeout
        )

    def client(self, round: Round, client: int, update: Vector) -> Machine:
        self._check_shown()
        held = self._held.setdefault(client, Held())
        packing = self._packing(round.weights.values())
        values = self.fixed_point.encode(update, round.weights[client])
        return PaillierClient(round, client, values, packing, self.key_bits, held)

    def _check_shown(self) -> None:
        if self.hide_model:
            rule, hint = "without a model", "fl.FederatedAveraging has one."
            raise ArgumentError("hide_model", True, rule, hint, code="conflict")

    def session(
        self,
        round: Round,
        weights: Model,
        update: Callable[[int, Model], Vector],
        *,
        timeout: float,
        training_seconds: float,
    ) -> Mapping[Party, Machine] | None:
        """Returns the machines of a whole round, with `hide_model`.

        A run that begins, or goes on from a file, begins with a model that all its clients have.
        """
        if not self.hide_model:
            return None
        if not any(
            held.model is not None and np.array_equal(held.model, weights)
            for held in self._held.values()
        ):
            self._stored, self._first = Stored(), weights
        assert self._first is not None
        machines: dict[Party, Machine] = {
            SERVER: HidingServer(
                round, self._scale, self._stored, self.min_clients, self.timeout, timeout
            )
        }
        for client in round.clients:
            machines[client] = HidingClient(
                replace(round, weights={client: round.weights[client]}),
                client,
                self,
                self._scale,
                self._first,
                self._held.setdefault(client, Held()),
                partial(update, client),
                training_seconds,
            )
        return machines

    def check_round(self, round: Round) -> None:
        super().check_round(round)
        plan = round.plan
        if self.hide_model and plan is not None:
            hint = "Then any two rounds share a client, who has the key to the model."
            part = plan.cohort / plan.population
            Between(0.5, 1.0, above=True).check("client_fraction", part, hint)

    def check_weights(self, weights: Collection[int]) -> None:
        super().check_weights(weights)
        self._packing(weights)

    def kept(self, client: int) -> dict[str, Value]:
        held = self._held.get(client, Held())
        key = {} if held.key is None else {"p": held.key.p, "q": held.key.q}
        return {**key, "ever": sorted(held.ever)}

    def keep(self, client: int, state: Message) -> None:
        held = self._held[client] = Held(ever=set(texts(state, "ever")))
        p, q = (state.body.get(name) for name in ("p", "q"))
        if isinstance(p, int) and isinstance(q, int):
            held.hold(PrivateKey(p, q))

    def held_by(self, client: int) -> PrivateKey | None:
        """Returns the private key that a client holds now; for experiments on what it reads."""
        return self._held[client].key if client in self._held else None

    def leaks_to(self, coalition: Coalition, outcome: Outcome) -> Leaks:
        """Returns every single client to the server with a client that ever held the key.

        A server that lies needs no client: it asks one to decrypt a single update, or has the key
        sealed for itself. With `hide_model` the server alone does not know the mean.
        """
        received = outcome.transcript.received(SERVER, "update")
        senders = {message.sender for message in received}
        used = {message.text("fingerprint", "") for message in received}
        holders = {k for k, held in self._held.items() if held.ever & used}
        holders |= {k for k in coalition.clients if outcome.transcript.received(k, "key")}
        if coalition.server and (coalition.lying or holders & coalition.clients):
            return frozenset(frozenset({client}) for client in senders - coalition.clients)
        if self.hide_model and not holders & coalition.clients:
            return frozenset()
        return inherent_leaks(coalition, outcome.included)
