"""Correlated randomness that CrypTen's two to four parties make themselves: nobody need be trusted.

    crypten_ext.enable()
    crypten.cfg.mpc.provider = "PARTIES"

Any n - 1 parties that follow the protocol learn nothing of what the tuples hide
(`extensions.two_party`). Online all is as with a dealer: the same openings in the same rounds. What
a dealer would send is replaced by messages between the parties, of which there are far more.
"""

from crypten_ext.pairwise.maker import PartiesProvider, disconnect, install, remove
from crypten_ext.pairwise.preparing import use_material

__all__ = ["PartiesProvider", "disconnect", "install", "remove", "use_material"]
