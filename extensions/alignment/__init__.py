"""Private alignment: owners of records of the same persons find whom all have, in one order."""

from extensions.alignment.ids import IdFormat, Ids, ids_of
from extensions.alignment.owners import Owners
from extensions.alignment.ring import AlignmentRing, Common, OwnerTerms
from extensions.alignment.store import ListStore
from extensions.alignment.workers import Workers

__all__ = [
    "AlignmentRing",
    "Common",
    "IdFormat",
    "Ids",
    "ListStore",
    "OwnerTerms",
    "Owners",
    "Workers",
    "ids_of",
]
