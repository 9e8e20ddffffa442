"""The server's part: it moves a model that it cannot read by means that it cannot read."""

from collections.abc import Iterable
from dataclasses import dataclass

import gmpy2
import numpy as np
from gmpy2 import mpz

from fl.paillier.hidden.scale import Scale
from fl.paillier.packing import as_rows
from fl.paillier.server import PaillierServer
from fl.round.machines import Output, Refusal, Round, Timer
from fl.round.messages import Message, Value


@dataclass
class Stored:
    """What the server keeps of the model from round to round.

    Attributes:
        moved: ciphertexts of how far it is from the first model; None: it is that one.
        modulus: n of their key.
    """

    moved: list[int] | None = None
    modulus: int = 0


class HidingServer(PaillierServer):
    """Goes through `PaillierServer`'s stages but for the last one, and never sees a plaintext.

    `stored` is replaced once more than half of those in the mean have applied it.
    """

    def __init__(
        self,
        round: Round,
        scale: Scale,
        stored: Stored,
        min_clients: int,
        timeout: float,
        training: float,
    ) -> None:
        packing, point = scale.packing, scale.fixed_point
        super().__init__(round, scale.key_bits, packing, point, min_clients, timeout)
        self._scale = scale
        self._stored = stored
        self._training = training
        self._applied: set[int] = set()
        self._next: list[int] = []

    def _wait(self, stage: str, clients: Iterable[int], now: float) -> Timer:
        extra = self._training if stage == "update" else 0.0
        return super()._wait(stage, clients, now + extra)

    def _wanted(self) -> int:
        """Returns n of the model's key, which one of the clients must have."""
        if self._stored.moved is None:
            return super()._wanted()
        if self._stored.modulus not in {self._moduli[k] for k in self._members}:
            raise self.failure("no client has the key under which the model is encrypted.")
        return self._stored.modulus

    def _beside_key(self) -> dict[str, Value]:
        """Returns who takes part, with what weight, and the model."""
        members = sorted(self._members)
        weights = [self.round.weights[k] for k in members]
        body: dict[str, Value] = {
            "clients": np.array(members, dtype=np.int64),
            "weights": np.array(weights, dtype=np.int64),
        }
        if self._stored.moved is not None:
            body["model"] = as_rows(self._stored.moved, self._bits // 4)
        return body

    def _go_on(self, now: float) -> Iterable[Output]:
        if len(self._members) < self._min_clients:
            left = f"{len(self._members)} clients are left, of at least {self._min_clients}."
            raise self.failure(left)
        if not self._included:
            yield from self._prepare(now)
        elif not self._next:
            yield from self._spread(now)
        else:
            yield from self._end()

    def _spread(self, now: float) -> Iterable[Output]:
        """Sends the mean to all whose updates are in it."""
        assert self._key is not None
        square = self._key.n_squared
        weight = sum(self.round.weights[client] for client in self._included)
        factor = self._scale.factor(weight)
        mean = [int(gmpy2.powmod(total, factor, square)) for total in self._sums]
        before = self._stored.moved or [1] * len(mean)
        self._next = [int(mpz(a) * b % square) for a, b in zip(before, mean, strict=True)]
        rows = as_rows(mean, self._bits // 4)
        for client in sorted(self._included):
            yield self.send(client, "mean", mean=rows)
        yield self._wait("applied", self._included, now)

    def _take(self, message: Message) -> None:
        if self._stage == "applied" and message.kind == "applied":
            self.check_round(message)
            self._applied.add(message.sender)
            return
        super()._take(message)

    def _end(self) -> Iterable[Output]:
        """Keeps the new model if more than half of the clients in the mean have it."""
        assert self._key is not None
        if 2 * len(self._applied) <= len(self._included):
            told = "; ".join(f"client {k}: {why}" for k, why in sorted(self._failed.items()))
            raise self.failure(
                f"{len(self._applied)} of {len(self._included)} clients could "
                f"apply the mean. {told}"
            )
        for client in sorted(self._failed.keys() - self._silent):
            yield Refusal(client, self._failed[client])
        self._stored.moved, self._stored.modulus = self._next, self._key.n
        included = np.array(sorted(self._included), dtype=np.int64)
        for client in sorted(self._applied):
            yield self.send(client, "end", clients=included)
