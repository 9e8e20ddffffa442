"""Deep leakage from gradients: a record rebuilt from what a coalition saw of its client's update.

`readings` has what a coalition knows of an update (`vectors_sent`, `running_sums`, `ciphertexts`,
`rest_of_mean`), `attack` rebuilds a record from it. An instrument for tests and figures: a success
shows that a view leaks; a failure does not show that it is private.
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
