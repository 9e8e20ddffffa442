"""The networks of `benchmarks.network`, as the in-process transport takes them."""

from benchmarks.network.profiles import PROFILES
from fl.simulation import Link, Network


def simulated(profile: str) -> Network:
    """Returns a network whose links, one for each direction of each pair, are the profile's."""
    link = PROFILES[profile]
    rate = float("inf") if link.mbit is None else link.mbit * 1e6 / 8
    one = Link(delay=link.delay_ms / 1e3, bandwidth=rate)
    return Network(server=one, peers=one)
