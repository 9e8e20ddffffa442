"""The network of a simulated run: links with delays and bandwidths, neighbours, and drop-outs."""

from fl.chain import neighbours
from fl.round import latency
from fl.round.network import DropOut, Link, Network
from fl.round.transport import InProcessTransport

__all__ = ["DropOut", "InProcessTransport", "Link", "Network", "latency", "neighbours"]
