"""The benchmarks' networks: commands and functions run as if a LAN or WAN lay between parties.

``python -m benchmarks network --profile wan -- COMMAND`` runs any command in a network namespace
of its own, where packets between its processes over 127.0.0.1 arrive late and at a limited rate;
`call` runs a function of ours so. Every one-way trip takes at least the profile's delay, each
direction of each connection has the profile's rate to itself, packets keep their order within it,
and none is lost. TCP is the kernel's own, with segments of an Ethernet's size and slow start.
Pipes, Unix-domain sockets and shared memory are no network and stay as they are.

A round trip and a bulk transfer are measured before the command starts; `current` gives them to
what runs inside, and `benchmarks.tables.publish` writes them with every table.
"""

from benchmarks.network.calibration import current
from benchmarks.network.calling import call
from benchmarks.network.profiles import PROFILES, Link, link

__all__ = ["PROFILES", "Link", "call", "current", "link"]
