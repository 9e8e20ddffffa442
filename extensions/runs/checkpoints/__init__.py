"""Checkpoints of shares: a run that was interrupted goes on, and is released once.

Each party keeps its own shares after every so many steps, in a folder of its own. To resume, the
parties agree on the newest checkpoint that all of them have, before anything is shared.

**Shares** are written exactly as the run has them, not re-randomised. A party's file holds nothing
that the party did not know, so resuming from it tells it nothing. Those of all parties together
are the model, as they are in memory. Shares that were taken at different steps do not add up to
it: each step adds fresh, uniform shares of the update. After resuming, masks come from new keys
and new tuples, so that what is opened on the way is masked independently of all that was opened
in steps that are lost.

Privacy budget:
    Where nothing is opened in training, every party's view of a step is its own noise and uniform
    shares. Steps that are lost were never released: making them again, with fresh sampling and
    noise, costs the released model nothing, as long as one continuation alone is released. Going
    back to an older checkpoint of an unfinished run is harmless for the same reason, and allowed.
    An owner's local model is trained once: the first checkpoint follows the initialisation, before
    which nothing was released and a run is started anew.

**One release**, however often it is opened. All that will be opened is computed first, and stays
shared until every party has stored its words of it and has marked that release, on disk: a party
opens what it has marked, and nothing else of the run. Opening it sends the stored words; nothing is
computed or drawn again, so that opening it once more, after a crash, tells nobody anything new.
Whoever resumes the run while one party has a mark resumes that release. The words are removed once
every party has the result on disk; from then on the run is refused (`files` has the order).

**Releases on the way**, such as a public transform of features, are opened before training goes on.
Each has a name, and is computed and drawn once: every party stores its words before any is opened,
and a run that goes on opens the stored ones (`files`).

**Values on the way**, such as counts of correct predictions, are computed afresh whenever they are
opened. Before each of them every party writes what the run has spent, that value included; a run
that goes on, from whichever checkpoint, goes on from what was spent last. Steps that are lost count
if they were made before such a value, and once more when they are made again.

**What a file does not hold** is a digest of the party's records. Whoever got hold of the file
could try out which records have that digest, while a share alone tells nothing. The guarantee
does not need it: a record that is present in some of the steps only costs less.
"""

from extensions.runs.checkpoints.agreement import Offer
from extensions.runs.checkpoints.all_parties import AllCheckpoints, local_exchange, run_concurrently
from extensions.runs.checkpoints.files import Checkpoint
from extensions.runs.checkpoints.folder import runs_in
from extensions.runs.checkpoints.marks import claim_opening
from extensions.runs.checkpoints.options import CheckpointOptions
from extensions.runs.checkpoints.party import PartyCheckpoints
from extensions.runs.checkpoints.runs import check_files, run_settings
from extensions.runs.checkpoints.script import ScriptCheckpoints

__all__ = [
    "AllCheckpoints",
    "Checkpoint",
    "CheckpointOptions",
    "Offer",
    "PartyCheckpoints",
    "ScriptCheckpoints",
    "check_files",
    "claim_opening",
    "local_exchange",
    "run_concurrently",
    "run_settings",
    "runs_in",
]
