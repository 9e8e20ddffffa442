"""A client's part: it decrypts the model, trains it, and applies the mean that it decrypts."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from extensions.errors import ArgumentError, MessageError, UpdateError
from fl.paillier.client import Held, PaillierClient
from fl.paillier.hidden.scale import Model, Scale
from fl.paillier.keys import PublicKey
from fl.paillier.packing import Signed
from fl.round.aggregator import Aggregator
from fl.round.machines import Aggregate, Output, Round, Timer, Vector
from fl.round.messages import SERVER, Message

TRAINING = "training"

Train = Callable[[Model], Vector]
"""From the model to the client's update; raises UpdateError to withdraw."""


class HidingClient(PaillierClient):
    """Trains between the server's key and its own ciphertexts; all clients have `first`."""

    def __init__(
        self,
        round: Round,
        client: int,
        aggregator: Aggregator,
        scale: Scale,
        first: Model,
        held: Held,
        train: Train,
        seconds: float,
    ) -> None:
        nothing = np.zeros(round.size, dtype=scale.fixed_point.dtype)
        super().__init__(round, client, nothing, scale.packing, scale.key_bits, held)
        self._aggregator = aggregator
        self._scale = scale
        self._first = first
        self._train = train
        self._seconds = seconds
        self._due = {"deal", "key", "mean", "end"}
        self._public: PublicKey | None = None
        self._moved: Signed = np.zeros(round.size, dtype=np.int64)
        self._model = first
        self._new: Model | None = None

    def _answer(self, message: Message, now: float) -> Output:
        match message.kind:
            case "key":
                self._begin(message)
                return Timer(TRAINING, now + self._seconds)
            case "mean":
                return self._apply(message)
            case "end":
                return self._end(message)
            case _:
                return super()._answer(message, now)

    def _known(self) -> Iterable[int]:
        """Returns all clients of the run: who takes part is announced later, with the key."""
        plan = self.round.plan
        return self.round.clients if plan is None else range(plan.population)

    def _begin(self, message: Message) -> None:
        """Takes key and model, if the round is one that the run has."""
        clients = message.clients("clients")
        weights = message.array("weights", np.int64, (len(clients),)).tolist()
        announced = replace(self.round, weights=dict(zip(clients, weights, strict=True)))
        own, given = self.round.weights[self.party], announced.weights.get(self.party)
        if given != own:
            raise MessageError(f"'key' gives this client a weight of {given}, not its own {own}")
        self._aggregator.check_round(announced)
        self._public = self._taken(message)
        if "model" in message.body:
            self._moved = self._read(message, "model")
            self._model = self._scale.model(self._first, self._moved)

    def _read(self, message: Message, name: str) -> Signed:
        n = self._key(0).public.n
        return self._packing.unpack(self._plaintexts(message, name), self.round.size, n)

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        assert self._public is not None
        try:
            update = self._train(self._model)
            self._aggregator.check_update(update, self.round.size)
        except UpdateError as error:
            yield self._withdraw(error)
            return
        encoded = self._scale.fixed_point.encode(update, self.round.weights[self.party])
        self._values = encoded.view(f"i{encoded.itemsize}").astype(np.int64)
        try:
            yield self._sent(self._public)
        except ArgumentError as error:
            yield self._withdraw(error)

    def _apply(self, message: Message) -> Message:
        moved = self._moved + self._read(message, "mean")
        if np.any(np.abs(moved) > self._scale.farthest):
            raise MessageError(
                f"the model has moved more than {self._scale.range:g} from its first values: raise "
                "model_range"
            )
        self._new = self._held.model = self._scale.model(self._first, moved)
        return self.send(SERVER, "applied")

    def _end(self, message: Message) -> Aggregate:
        """Returns by how much this client's model has changed: what a run goes on with."""
        if self._new is None:
            raise MessageError("the end of a round before its mean")
        change = self._new.astype(np.float64) - self._model
        return Aggregate(change, tuple(sorted(message.clients("clients"))))
