"""A simulated network: delays, bandwidths, and parties that vanish."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from extensions.errors import ArgumentError
from extensions.rules import NOT_NEGATIVE, check_fields
from fl.round.messages import Party

When = Literal["before", "after"]


@dataclass(frozen=True, kw_only=True)
class Link:
    """Sets delay and bandwidth from one party to another.

    Attributes:
        delay: seconds that every message takes.
        bandwidth: bytes a second; messages of one link wait for each other.

    Examples:
        >>> fl.simulation.Link(delay=0.05, bandwidth=1e6)
        Link(delay=0.05, bandwidth=1000000.0)
    """

    delay: Annotated[float, NOT_NEGATIVE] = 0.0
    bandwidth: float = math.inf

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.bandwidth > 0.0:
            raise ArgumentError("bandwidth", self.bandwidth, "above 0", code="range")


@dataclass(frozen=True, kw_only=True)
class Network:
    """Sets the links between all pairs of parties.

    Attributes:
        server: link of the server, or of another party besides the clients, with anybody.
        peers: link between two clients.
        links: exceptions to these, by (sender, receiver).

    Examples:
        >>> slow = fl.simulation.Network(server=fl.simulation.Link(delay=0.05, bandwidth=1e6))
        >>> transport = fl.simulation.InProcessTransport(network=slow)
        >>> updates = {0: np.zeros(1000), 1: np.ones(1000)}
        >>> outcome = fl.protocols.aggregate(fl.PlainAggregator(), updates, transport=transport)
        >>> round(outcome.seconds, 3)
        0.054
    """

    server: Link = Link()
    peers: Link = Link()
    links: Mapping[tuple[Party, Party], Link] = field(default_factory=dict)

    def link(self, sender: Party, receiver: Party) -> Link:
        """Returns the link from one party to another."""
        usual = self.peers if sender >= 0 and receiver >= 0 else self.server
        return self.links.get((sender, receiver), usual)


@dataclass(frozen=True)
class DropOut:
    """Makes a party vanish when it sends its first message of a kind.

    From then on it is silent, its timers stop, and what arrives at it is lost.

    Attributes:
        party: who vanishes.
        kind: of the message. All messages of that kind in one step count as one.
        when: "before" the message is sent, or "after".

    Examples:
        >>> lost = fl.simulation.DropOut(party=1, kind="update")
        >>> transport = fl.simulation.InProcessTransport(drop_outs=[lost])
        >>> updates = {k: np.full(2, float(k)) for k in range(3)}
        >>> outcome = fl.protocols.aggregate(fl.PlainAggregator(), updates, transport=transport)
        >>> outcome.aggregate.included, outcome.vanished
        ((0, 2), (1,))
    """

    party: Party
    kind: str
    when: When = "before"

    def __post_init__(self) -> None:
        check_fields(self)
