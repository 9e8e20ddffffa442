"""What CrypTen parties do to keep checkpoints, and to go on from them."""

import os
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crypten_ext import nn
from crypten_ext.nn.batches import poisson_batches
from crypten_ext.nn.optim import DPSGD
from crypten_ext.processes.worker import Context
from crypten_ext.run.checkpoints import Checkpoints
from extensions.privacy.randomness import InsecureSeededSource
from tests.helpers.party_tasks.protocols import outcome, recorded, session

WIDTHS = (4, 3, 2)


def interrupted(*_: Any) -> None:
    raise InterruptedError


def train(
    context: Context,
    *,
    x: Any,
    y: Any,
    state: str,
    folder: str,
    steps: int,
    until: int,
    resume: bool = False,
    lr: float = 0.5,
    cut: bool = False,
) -> dict[str, Any]:
    """Returns what `begin` did and sent, and after the last step weights and the optimizer's state.

    A run that reaches `steps` is released, unless that is cut off before anything is opened.
    """
    os.environ["XDG_STATE_HOME"] = str(Path(state) / str(context.rank))
    source = InsecureSeededSource(4)
    with session():
        torch.manual_seed(1)
        layers = [nn.Linear(WIDTHS[0], WIDTHS[1]), nn.ReLU(), nn.Linear(WIDTHS[1], WIDTHS[2])]
        for layer in layers[::2]:
            for name in ("weight", "bias"):
                value = torch.full_like(getattr(layer, name), 0.1)
                layer.set_parameter(name, value.requires_grad_())
        model = nn.Sequential(*layers).encrypt()
        beside = {"momentum": 0.5, "average": 1.0, "steps": steps}
        optimizer = DPSGD(model, lr, 1.0, 1.0, 0.5, source=source, **beside)
        batches = poisson_batches(
            x, y, sample_rate=0.5, steps=steps, classes=2, max_feature_norm=1.0, source=source
        )
        checkpoints = Checkpoints(
            model,
            optimizer,
            Path(folder) / str(context.rank),
            steps=steps,
            every=2,
            resume=resume,
            settings={"lr": lr},
            own={"records": len(x)},
        )
        made: list[int | None] = []
        with recorded() as traffic:
            refused = outcome(lambda: made.append(checkpoints.begin()))
        result = {"refused": refused, "traffic": [sent["name"] for sent in traffic]}
        if not made:
            return result
        begun = made[0] or 0
        if made[0] is None:
            checkpoints.after(0)
        loss = nn.BCEWithLogitsLoss()
        for step, (features, targets) in enumerate(islice(batches, until - begun), begun + 1):
            optimizer.zero_grad()
            loss(model(features), targets).backward()
            optimizer.step()
            checkpoints.after(step)
        shares = [p.share.numpy().copy() for p in model.parameters()]
        if cut:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("crypten_ext.run.checkpoints.open_sum", interrupted)
                with pytest.raises(InterruptedError):
                    checkpoints.release()
            weights = []
        elif until == steps:
            weights = [*checkpoints.release().values()]
        else:
            weights = [p.get_plain_text().numpy() for p in model.parameters()]
        return result | {
            "made": made[0],
            "resumed": checkpoints.resumed,
            "shares": shares,
            "weights": [np.asarray(w) for w in weights],
            "state": optimizer.state_dict(),
        }
