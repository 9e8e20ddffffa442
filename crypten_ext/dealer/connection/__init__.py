"""How a party and the dealer meet: `DealerListener` at the dealer, `connect` at a party.

The dealer is a member of the parties' federation, and both prove who they are by TLS. A party is
then told the key of its tuples, 32 bytes, and repeatedly which parties the dealer still waits for,
as a bit each of 8 bytes. Once nobody is missing, both have a correspondence that outlives its
connections (`extensions.transport.reliable_channel.ReliableChannel`).
"""

from crypten_ext.dealer.connection.listener import DealerListener
from crypten_ext.dealer.connection.party import DEALER, LARGEST, DealerConnection, connect

__all__ = ["DEALER", "LARGEST", "DealerConnection", "DealerListener", "connect"]
