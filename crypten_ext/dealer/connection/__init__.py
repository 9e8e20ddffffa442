"""How a party and the dealer come together: `Door` on the dealer's side, `connect` on a party's.

In a federation both prove who they are by TLS. Without one a party says hello with a public value,
the dealer welcomes it with another, and both agree on keys; the party then proves, in a sealed
frame, that it has them, and only that gives it its seat. Until every seat is taken the dealer tells
the seated which parties it still waits for.
"""

from crypten_ext.dealer.connection.dialling import connect, connect_member
from crypten_ext.dealer.connection.door import Door
from crypten_ext.dealer.connection.frames import BrokenFrameError, Frames
from crypten_ext.dealer.connection.link import LARGEST_FRAME, Link

__all__ = [
    "LARGEST_FRAME",
    "BrokenFrameError",
    "Door",
    "Frames",
    "Link",
    "connect",
    "connect_member",
]
