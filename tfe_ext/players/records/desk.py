"""Where a player's process answers what a client's graph asks of its records."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tensorflow.python.ops import script_ops

from extensions.protocols.agreement import canonical
from tfe_ext.players.records.owner import Owner

ASK, TAKE = "pea:ask", "pea:take"
"""What clients call the functions by that `open_desk` offers."""
_NONE = canonical({"none": True})
"""The answer of a player without records."""

_kept: list[Callable[..., Any]] = []
"""TensorFlow itself keeps no function."""


def open_desk(owner: Owner | None) -> None:
    """Lets this process answer on its own device; once a process.

    Args:
        owner: whose records the process has; None if it has none.
    """

    def ask(message: Any, *arrays: Any) -> Any:
        return np.array(_NONE if owner is None else owner.answer(bytes(message), arrays))

    def take(name: Any) -> Any:
        return np.zeros(0, np.int64) if owner is None else owner.array(bytes(name))

    _kept.extend([ask, take])
    script_ops._py_funcs._funcs.update({ASK: ask, TAKE: take})
