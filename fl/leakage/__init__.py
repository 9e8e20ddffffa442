"""Deep leakage from gradients: a record rebuilt from what a coalition saw of its client's update.

`readings` says what a coalition has of an update (`vectors_sent`, `running_sums`, `ciphertexts`,
`rest_of_mean`), `attack` rebuilds a record from that. An instrument for tests and figures: it shows
that a view leaks; that it fails does not show that a view is private.
"""

from fl.leakage.attack import NO_LEAK, Reconstruction, attack, deep_leakage
from fl.leakage.readings import ciphertexts, rest_of_mean, running_sums, vectors_sent

__all__ = [
    "NO_LEAK",
    "Reconstruction",
    "attack",
    "ciphertexts",
    "deep_leakage",
    "rest_of_mean",
    "running_sums",
    "vectors_sent",
]
