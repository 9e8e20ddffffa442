"""The baseline without protection: clients send their updates to the server as they are."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError, MessageError, UpdateError
from extensions.rules import POSITIVE
from fl.round.aggregator import Aggregator, Leaks, check_update, inherent_leaks
from fl.round.machines import Aggregate, Machine, Output, Refusal, Round, Timer, Vector
from fl.round.messages import SERVER, Message, Value
from fl.round.view import Coalition, Outcome

Update = npt.NDArray[np.float32]


class PlainAggregator(Aggregator):
    """Averages plain updates, as published. **Insecure**: the server reads every update.

    Cost:
        One message a client, of 4 bytes a value; of 8 bytes a value that is not 0, with its place,
        where that is less, as with `SignDS`.

    Args:
        timeout: seconds that the server waits for updates; then it goes on with those it has.

    Source:
        McMahan et al., AISTATS 2017, Algorithm 1.

    Examples:
        >>> updates = {0: np.array([1.0, 2.0]), 1: np.array([3.0, 4.0])}
        >>> outcome = fl.protocols.aggregate(fl.PlainAggregator(), updates)
        >>> outcome.aggregate.mean.tolist()
        [2.0, 3.0]
    """

    min_clients = 1

    def __init__(self, *, timeout: float = 60.0) -> None:
        POSITIVE.check("timeout", timeout)
        self.timeout = timeout

    def server(self, round: Round) -> Machine:
        return PlainServer(round, self.timeout, weighted_mean)

    def client(self, round: Round, client: int, update: Vector) -> Machine:
        return _Client(round, client, update)

    def check_update(self, update: Vector, size: int) -> None:
        super().check_update(update, size)
        if np.any(np.abs(update) > np.finfo(np.float32).max):
            raise UpdateError("a value of the update is beyond single precision")

    def leaks_to(self, coalition: Coalition, outcome: Outcome) -> Leaks:
        """Returns every single client to a coalition with the server, else `inherent_leaks`."""
        if not coalition.server:
            return inherent_leaks(coalition, outcome.included)
        received = outcome.transcript.received(SERVER, "update")
        senders = {message.sender for message in received}
        return frozenset(frozenset({client}) for client in senders - coalition.clients)


class _Client(Machine):
    def __init__(self, round: Round, client: int, update: Vector) -> None:
        super().__init__(round, client)
        self._update = update

    def state(self) -> dict[str, Value]:
        return {}

    def start(self, now: float) -> Iterable[Output]:
        values = self._update.astype(np.float32)
        (places,) = np.nonzero(values)
        if 2 * places.size < values.size:
            yield self.send(SERVER, "update", values=values[places], places=places.astype("<u4"))
        else:
            yield self.send(SERVER, "update", values=values)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        return ()


class PlainServer(Machine):
    """The server's part: it reads all updates and takes their mean.

    Args:
        round: of the clients.
        timeout: seconds that it waits for updates.
        mean: of updates (clients, size) and the clients' weights (clients,).
    """

    def __init__(
        self, round: Round, timeout: float, mean: Callable[[Sequence[Update], Vector], Vector]
    ) -> None:
        super().__init__(round, SERVER)
        self._mean = mean
        self._timeout = timeout
        self._waiting = set(round.clients)
        self._updates: dict[int, Update] = {}

    def start(self, now: float) -> Iterable[Output]:
        """Yields the timer of the updates."""
        yield Timer("updates", now + self._timeout)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        """Yields the mean once all updates are here."""
        client = message.sender
        if client not in self._waiting:
            return
        self._waiting.remove(client)
        try:
            self._updates[client] = self._read(message)
        except (MessageError, UpdateError) as error:
            yield Refusal(client, str(error))
        if not self._waiting:
            yield self._aggregate()

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        """Yields the mean without clients that are late."""
        for client in sorted(self._waiting):
            yield Refusal(client, f"no update within {self._timeout:g} s")
        self._waiting.clear()
        yield self._aggregate()

    def _read(self, message: Message) -> Update:
        self.check_round(message)
        if message.kind != "update":
            raise MessageError(f"a message of kind {message.kind!r}, not an update")
        if "places" in message.body:
            update = self._filled(message)
        else:
            update = message.array("values", np.float32, (self.round.size,))
        check_update(update, self.round.size)
        return update

    def _filled(self, message: Message) -> Update:
        """Returns the update of which a client sent places and values, others being 0."""
        places = message.array("places", np.uint32, (-1,))
        values = message.array("values", np.float32, places.shape)
        if np.any(np.diff(places.astype(np.int64)) <= 0) or np.any(places >= self.round.size):
            raise MessageError(f"places that do not ascend below {self.round.size}")
        update = np.zeros(self.round.size, np.float32)
        update[places] = values
        return update

    def _aggregate(self) -> Aggregate:
        if not self._updates:
            raise self.failure("no client's update can be used.")
        included = tuple(sorted(self._updates))
        weights = np.array([self.round.weights[client] for client in included], dtype=np.float64)
        try:
            mean = self._mean([self._updates[client] for client in included], weights)
        except ArgumentError as error:
            raise self.failure(str(error)) from error
        return Aggregate(mean, included)


def weighted_mean(updates: Sequence[Update], weights: Vector) -> Vector:
    """Returns the sum of updates by their weights, over the sum of weights, (size,)."""
    total = np.zeros(updates[0].shape)
    for weight, update in zip(weights, updates, strict=True):
        total += weight * update.astype(np.float64)
    mean: Vector = total / weights.sum()
    return mean
