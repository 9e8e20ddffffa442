"""How a party and the dealer come together: `Door` on the dealer's side, `connect` on a party's.

The dealer is a member of the parties' federation, and both prove who they are by TLS. A party is
then told the key of its tuples, 32 bytes, and repeatedly which parties the dealer still waits for,
as a bit each of 8 bytes. Once nobody is missing, both have a correspondence that outlives its
connections (`extensions.transport.post.Post`).
"""

from crypten_ext.dealer.connection.door import Door
from crypten_ext.dealer.connection.party import DEALER, LARGEST, Seat, connect

__all__ = ["DEALER", "LARGEST", "Door", "Seat", "connect"]
