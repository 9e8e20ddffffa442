"""The network between two parties: a delay and a rate."""

from dataclasses import dataclass
from typing import Annotated, Literal

from extensions.rules import Between, check_fields, one_of
from extensions.runs.config.run_time import NETWORKS

Means = Literal["auto", "switch", "netem"]

LONGEST_MS = 1000.0
SLOWEST_MBIT, FASTEST_MBIT = 0.1, 30_000.0
"""netem counts bytes a second in 32 bits."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """One direction of a connection; both directions are alike.

    Attributes:
        profile: the name that results carry.
        delay_ms: one-way, of the last bit of a packet.
        mbit: 10^6 bits per second, headers included; None is without limit.
        means: "netem" is the kernel's queueing discipline, whose rate all connections and
            directions share; "switch" the user-space switch, which gives each its own but needs
            /dev/net/tun and a core; "auto" takes netem where the kernel has it.
    """

    profile: str
    delay_ms: Annotated[float, Between(0.0, LONGEST_MS)] = 0.0
    mbit: Annotated[float | None, Between(SLOWEST_MBIT, FASTEST_MBIT)] = None
    means: Means = "auto"

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def plain(self) -> bool:
        """Whether this is the loopback interface as it is."""
        return self.delay_ms == 0.0 and self.mbit is None


PROFILES = {
    name: Link(profile=name, delay_ms=network.delay_ms, mbit=network.mbit)
    for name, network in NETWORKS.items()
}


def link(
    profile: str = "loopback",
    *,
    delay_ms: float | None = None,
    mbit: float | None = None,
    means: Means = "auto",
) -> Link:
    """Returns a profile, changed by what is given.

    A changed profile's name says how: "wan-50ms", "loopback-10mbit".

    Raises:
        ArgumentError: there is no such profile, or a number is outside its range.
    """
    one_of(PROFILES).check("profile", profile)
    base = PROFILES[profile]
    name = profile
    name += f"-{delay_ms:g}ms" if delay_ms is not None else ""
    name += f"-{mbit:g}mbit" if mbit is not None else ""
    return Link(
        profile=name,
        delay_ms=base.delay_ms if delay_ms is None else delay_ms,
        mbit=base.mbit if mbit is None else mbit,
        means=means,
    )
