"""A run's manifest: everything public of it, in one statement that all parties compare.

It is compared before anything is shared
(`extensions.protocols.noisy_sums.algorithms.agree_on_algorithm`; where parties are started one by
one also where they meet, before their host is set up), and whatever differs is named at every
party, with whose and both values. Its digest names the run to whoever deals, and is kept with
report, checkpoints, prepared tuples and model. Functions of one's own and weights are stated by
digest; none of them is sent.
"""

from extensions.runs.manifest.exemptions import PARTY_SPECIFIC, PRESENCE_ONLY
from extensions.runs.manifest.manifest import (
    PROTOCOL,
    differences,
    manifest_of,
    of_tuples,
    settings_of,
    versions,
)
from extensions.runs.manifest.statement import comparable_settings, flattened, flattened_value

__all__ = [
    "PARTY_SPECIFIC",
    "PRESENCE_ONLY",
    "PROTOCOL",
    "comparable_settings",
    "differences",
    "flattened",
    "flattened_value",
    "manifest_of",
    "of_tuples",
    "settings_of",
    "versions",
]
