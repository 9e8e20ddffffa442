"""What CrypTen parties do to start a model from their local ones."""

from typing import Any
from unittest.mock import patch

import numpy as np

from crypten_ext import nn
from crypten_ext.nn.batches import share_records
from crypten_ext.processes.worker import Context
from crypten_ext.run.initialization import initialize, parameter_pairs
from extensions.protocols.records import COMPARED
from tests.helpers.party_tasks.protocols import Outcome, outcome, recorded, session


def start(
    context: Context,
    *,
    local: Any,
    records: int,
    strategy: Any,
    x: Any = None,
    y: Any = None,
    weighting: Any = "records",
    compared: int = COMPARED,
) -> tuple[Outcome, list[str], list[np.ndarray]]:
    """Returns the outcome, the collectives, and the opened parameters of the started model.

    `compared` is how many comparisons are made at a time, at most.
    """
    with session(frac_bits=20), patch("extensions.protocols.records.COMPARED", compared):
        hidden = [nn.Linear(5, 4), nn.Sigmoid(), nn.Linear(4, 3)]
        model = nn.Sequential(*(hidden if len(local) == 2 else [nn.Linear(5, 3)])).encrypt()
        for pair in parameter_pairs(model):
            for parameter in pair:
                parameter.share = parameter.share * 0
        held_out = None if x is None else share_records(x, y, classes=3)
        with recorded() as traffic:
            found = outcome(
                lambda: initialize(
                    model,
                    local,
                    records,
                    strategy=strategy,
                    held_out=held_out,
                    weighting=weighting,
                )
            )
        names = [sent["name"] for sent in traffic]
        opened = [part.get_plain_text().numpy() for pair in parameter_pairs(model) for part in pair]
        return found, names, opened
