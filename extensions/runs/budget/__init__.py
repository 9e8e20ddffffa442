"""The ledger of one data set, on its owner's disk: what all runs on it cost a record together.

A run is entered before anything of it is shared, with all that it may cost, and counts from then
on: **reserved** while it lasts, **spent** from before anything is opened. The owner's cap is held
when a run is entered; the other parties hear that somebody refuses, and neither why nor how much
is left. A reservation of a run that died stays until the run is resumed and ends, or its owner
frees it by name. What is spent is never taken out.

**Adding up.** Later runs are chosen with earlier results in view, their noise, rate and steps too,
so that tight composition (PLD) is not for them. The sum is an RDP filter
(`extensions.privacy.composition`). A single run's settings have no results before them, so that it
may be composed by PLD instead. Both together are sound, since which of the two decides is fixed by
the first run alone: if that passes the cap by the filter, no second run is ever entered; if not,
the filter covers all of them.

**Records.** Rows to train on and rows held out are records of one data set, and their roles may
change with the seed. So every record is charged with both: the steps, and the noised count of
correct predictions. An exact count has no epsilon. It is noted, and with a cap it is refused,
unless the owner lets the cap cover training alone (`Cap.except_held_out`).

**Neighbours** are data sets that differ by one record added or removed, a null record in its place.
"""

from extensions.runs.budget.account import Account, Cap, Entry
from extensions.runs.budget.file import check_apart, followed, path_of, read, update
from extensions.runs.budget.reservations import Reservations

__all__ = [
    "Account",
    "Cap",
    "Entry",
    "Reservations",
    "check_apart",
    "followed",
    "path_of",
    "read",
    "update",
]
