"""Rounds in which one client is attacked: how its update is protected, and who looks at it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

import fl
from benchmarks.federated.leakage.images import Images
from fl.leakage import (
    Reconstruction,
    attack,
    ciphertexts,
    rest_of_mean,
    running_sums,
    vectors_sent,
)
from fl.protocols import Aggregator, Mechanism, Vector
from fl.weights import get_weights

LR = 1.0
CLIENTS = 3
ATTACKED = 1
OTHERS = (0, 2)

Order = Sequence[int]
"""The clients in the order of their chain, or without one by their numbers."""
Who = Callable[[Order], fl.Coalition]


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A way to protect updates.

    Attributes:
        name: as tables call it.
        views: the coalitions that look at the attacked client's update, by name.
        aggregator: makes the aggregator of a round.
        mechanism: makes the mechanism of a round; None: updates stay as they were trained.
        place: of the attacked client in the order, from 0.
    """

    name: str
    views: Mapping[str, Who]
    aggregator: Callable[[], Aggregator] = fl.PlainAggregator
    mechanism: Callable[[], Mechanism] | None = None
    place: int = ATTACKED


def clients_at(*places: int, server: bool = False) -> Who:
    """Returns the coalition of the clients at these places of an order."""
    return lambda order: fl.Coalition((order[place] for place in places), server=server)


SERVER = {"the server": clients_at(server=True)}
SCHEMES = (
    Scheme(name="none", views=SERVER),
    Scheme(
        name="chain",
        aggregator=fl.ChainAggregator,
        views={
            **SERVER,
            "the next client": clients_at(2),
            "colluding: both neighbours": clients_at(0, 2),
        },
    ),
    Scheme(
        name="chain",
        aggregator=fl.ChainAggregator,
        views={"colluding: server and next client": clients_at(1, server=True)},
        place=0,
    ),
    Scheme(name="masked", aggregator=fl.MaskedAggregator, views=SERVER),
    Scheme(
        name="Paillier",
        aggregator=fl.PaillierAggregator,
        views={**SERVER, "colluding: server and a client": clients_at(0, server=True)},
    ),
    Scheme(
        name="LocalDP, Gaussian, epsilon 8",
        mechanism=lambda: fl.LocalDP(epsilon=8.0, delta=1e-5, clip=1.0),
        views=SERVER,
    ),
    Scheme(
        name="LocalDP, Laplace, epsilon 8",
        mechanism=lambda: fl.LocalDP(epsilon=8.0, clip=1.0, noise="laplace"),
        views=SERVER,
    ),
    Scheme(
        name="LocalDP, Laplace, epsilon 1",
        mechanism=lambda: fl.LocalDP(epsilon=1.0, clip=1.0, noise="laplace"),
        views=SERVER,
    ),
    Scheme(name="SignDS, epsilon 100", mechanism=lambda: fl.SignDS(sign_eps=100.0), views=SERVER),
    Scheme(
        name="any: the mean alone",
        views={"everybody": clients_at(), "colluding: all other clients": clients_at(*OTHERS)},
    ),
)


def attacked_round(scheme: Scheme, images: Images, record: int) -> fl.FederatedAveraging:
    """Returns a run after a round in which each client trained one step on one record.

    The attacked client has the record of that number, the others those after it. It is repeated
    until that client has its place.
    """
    numbers = {ATTACKED: record} | {k: (record + 1 + k) % len(images.x) for k in OTHERS}
    clients = [_alone(images, numbers[k]) for k in range(CLIENTS)]
    while True:
        run = fl.FederatedAveraging(
            model=images.model(),
            clients=clients,
            aggregator=scheme.aggregator(),
            mechanism=Mechanism() if scheme.mechanism is None else scheme.mechanism(),
            client_fraction=1.0,
            local_epochs=1,
            batch_size=None,
            lr=LR,
            weighting="equal",
            transcript="all",
        )
        run.fit(1, progress=False)
        if order_of(run)[scheme.place] == ATTACKED:
            return run


def _alone(images: Images, record: int) -> tuple[Tensor, Tensor]:
    return images.x[record : record + 1], images.y[record : record + 1]


def order_of(run: fl.FederatedAveraging) -> Order:
    """Returns the clients' order in the last round, of a chain by the sum that came back."""
    assert run.outcome is not None
    for message in run.outcome.transcript.received(fl.protocols.SERVER, "sum"):
        users = message.body.get("users")
        if isinstance(users, np.ndarray):
            return tuple(users.tolist())
    return range(CLIENTS)


def readings(run: fl.FederatedAveraging, coalition: fl.Coalition) -> list[Vector]:
    """Returns what a coalition can read as the attacked client's update.

    What it saw of the update; where it saw nothing, what follows from the mean and its own updates.
    """
    assert run.outcome is not None
    aggregator, size = run.aggregator, get_weights(run.model).size
    view = run.outcome.transcript.view(coalition)
    if isinstance(aggregator, fl.ChainAggregator):
        return running_sums(view, ATTACKED, size)
    if isinstance(aggregator, fl.PaillierAggregator):
        weights, fixed_point = [1] * CLIENTS, aggregator.fixed_point
        packing = fl.paillier.Packing.of_round(aggregator.key_bits, fixed_point, weights)
        private = aggregator.held_by(ATTACKED)
        assert private is not None
        key = private if coalition.clients else private.public
        return ciphertexts(view, ATTACKED, size, packing, key, frac_bits=fixed_point.frac_bits)
    if seen := vectors_sent(view, ATTACKED, size):
        return seen
    own = {client: vectors_sent(view, client, size)[0] for client in coalition.clients}
    return [rest_of_mean(run.outcome, own)]


def rebuild(images: Images, updates: Sequence[Vector], steps: int, tries: int) -> Reconstruction:
    """Returns the record that an attack makes of readings of one update, (parameters,) each."""
    found = attack(
        images.model(),
        updates,
        lr=LR,
        shape=images.x.shape[1:],
        classes=images.classes,
        steps=steps,
        tries=tries,
    )
    assert found is not None
    return found
