"""How a party and the dealer come together: `Door` on the dealer's side, `connect` on a party's.

In a federation both prove who they are by TLS. Without one a party says hello with a public value,
the dealer welcomes it with another, and both agree on keys; the party then proves, in a sealed
frame, that it has them, and only that gives it its seat. Until every seat is taken the dealer tells
the seated which parties it still waits for. From then on both have a correspondence: of TLS one
that outlives its connections (`extensions.transport.post.Post`), else `Links`.
"""

from crypten_ext.dealer.connection.dialling import connect, connect_member
from crypten_ext.dealer.connection.door import Door
from crypten_ext.dealer.connection.frames import BrokenFrameError, Frames
from crypten_ext.dealer.connection.link import LARGEST_FRAME, LARGEST_REQUEST, Link
from crypten_ext.dealer.connection.links import Links
from crypten_ext.dealer.connection.members import DEALER, with_dealer

__all__ = [
    "DEALER",
    "LARGEST_FRAME",
    "LARGEST_REQUEST",
    "BrokenFrameError",
    "Door",
    "Frames",
    "Link",
    "Links",
    "connect",
    "connect_member",
    "with_dealer",
]
