"""One aggregation by itself: for tests of aggregators, and for measuring their cost."""

from collections.abc import Mapping
from statistics import mode

from extensions.errors import ArgumentError, UpdateError
from fl.round.aggregator import Aggregator
from fl.round.machines import Machine, Round, Vector
from fl.round.messages import SERVER, Party
from fl.round.transport import InProcessTransport
from fl.round.view import Outcome


def aggregate(
    aggregator: Aggregator,
    updates: Mapping[int, Vector],
    weights: Mapping[int, int] | None = None,
    *,
    number: int = 1,
    transport: InProcessTransport | None = None,
) -> Outcome:
    """Returns the weighted mean of the updates, and all that was sent for it.

    Args:
        aggregator: the protocol.
        updates: by client, each of shape (size,); the size is that of most of them.
        weights: by client; 1 each unless given.
        number: of the round.
        transport: a new one, with its delays and drop-outs; none of them unless given.

    Raises:
        ArgumentError: what the aggregator refuses before anything is sent.
        UpdateError: an update that its client would not send; names the client.
        RoundError: the round failed.
    """
    if not updates:
        raise ArgumentError("updates", {}, "", code="missing")
    if weights is not None and weights.keys() != updates.keys():
        raise ArgumentError("weights", sorted(weights), f"those of clients {sorted(updates)}")
    size = mode(update.size for update in updates.values())
    round = Round(number=number, size=size, weights=weights or dict.fromkeys(updates, 1))
    aggregator.check_round(round)
    machines: dict[Party, Machine] = {SERVER: aggregator.server(round)}
    for client in round.clients:
        try:
            aggregator.check_update(updates[client], round.size)
        except UpdateError as error:
            raise UpdateError(f"client {client}: {error}") from error
        machines[client] = aggregator.client(round, client, updates[client])
    return (transport or InProcessTransport()).run(machines | dict(aggregator.others(round)))
