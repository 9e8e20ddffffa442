"""Scripts of CrypTen's parties that documents show: one that chooses nothing, and one of a CNN."""

from typing import Any

import numpy as np
import torch

import crypten_ext
from crypten_ext.processes.worker import Context
from tests.helpers.documented import programs
from tests.helpers.party_tasks.protocols import session

from crypten import communicator


def documented(context: Context, *, x: Any, y: Any, delta: float) -> tuple[Any, Any, float]:
    """Returns the trained weight, the map of the whitening, and epsilon.

    Args:
        context: of the party.
        x: rows of all parties, (records, columns).
        y: their labels.
        delta: at which epsilon is told.
    """
    rank, parties = communicator.get().get_rank(), communicator.get().get_world_size()
    maps: list[Any] = []

    class Watched:
        """The package, whose whitenings are kept."""

        def __getattr__(self, name: str) -> Any:
            return getattr(crypten_ext, name)

        def whiten(self, *args: Any, **options: Any) -> Any:
            maps.append(crypten_ext.whiten(*args, **options))
            return maps[-1]

    names = {"x": np.array(x)[rank::parties], "y": np.array(y)[rank::parties]}
    first, then = programs(crypten_ext.defaults)
    with session(frac_bits=16):
        exec(first, names)
        names["crypten_ext"] = Watched()
        exec(then, names)
        weight = names["model"].weight.get_plain_text().numpy()
    return weight.tolist(), maps[0].matrix.tolist(), names["optimizer"].get_epsilon(delta)


def trained(context: Context, *, code: str, records: int) -> tuple[list[list[int]], float]:
    """Returns the shapes of the parameters that `train` of a program trains, and its epsilon.

    Args:
        context: of the party.
        code: of the program.
        records: of the party, random images of 8 x 8.
    """
    names: dict[str, Any] = {}
    x = torch.rand(records, 1, 8, 8)
    with session(frac_bits=16):
        exec(code, names)
        model, spent = names["train"](x, np.arange(records) % 10)
    return [list(parameter.size()) for parameter in model.parameters()], spent
