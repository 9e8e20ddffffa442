"""TensorFlow's name for all players together, which says what software they have.

A player tells nobody more than its task, whose name begins with the job's: so players and client
compare their software before anything is shared, and nothing of either has to be changed for it.
"""

import re

from extensions.errors import ArgumentError
from extensions.runs.manifest import versions

SOFTWARE = ("tf-encrypted", "tensorflow")
"""Distributions whose versions must be equal at all players and the client."""

_STATED = ("pea-mpl", *SOFTWARE)
_BETWEEN = "__"


def _word(name: str) -> str:
    version = str(versions(SOFTWARE)[f"version of {name}"])
    return re.sub(r"[^0-9A-Za-z]+", "_", version).strip("_")


JOB = _BETWEEN.join(["tfe", *map(_word, _STATED)])


def check_software(player: str, task: str) -> None:
    """Checks that a player of ours has the software of this process.

    Its task is such as "/job:tfe__0_1_0__0_9_1__2_21_0/replica:0/task:0"; one that is none of ours
    is let pass.
    """
    theirs = task.removeprefix("/job:").partition("/")[0].split(_BETWEEN)
    mine = JOB.split(_BETWEEN)
    if theirs[0] != mine[0] or len(theirs) != len(mine) or theirs == mine:
        return
    differing = [
        f"{name} {other.replace('_', '.')} at player {player}, {own.replace('_', '.')} here"
        for name, own, other in zip(_STATED, mine[1:], theirs[1:], strict=True)
        if own != other
    ]
    raise ArgumentError(
        "versions", "; ".join(differing), "equal at every player and here", "Nothing was shared."
    )
