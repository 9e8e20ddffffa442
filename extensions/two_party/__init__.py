"""Correlated randomness that parties make among themselves, pair by pair, without a dealer.

`meet` gives a party its `Peers`, `made` its shares of one tuple, and `cost_of` the cost of that.
All are messages in and messages out (`Round`), for any authenticated link. `owned` and `online` are
what Pencil's two owners compute besides. The rest of `extensions` imports nothing of this package.
"""

from extensions.two_party.pairwise import online, products
from extensions.two_party.pairwise.costs import cost_of
from extensions.two_party.pairwise.peers import Peers, meet
from extensions.two_party.pairwise.rounds import Making, Round, together
from extensions.two_party.pairwise.tuples import made

__all__ = ["Making", "Peers", "Round", "cost_of", "made", "meet", "online", "products", "together"]
