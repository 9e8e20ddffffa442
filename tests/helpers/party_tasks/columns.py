"""What CrypTen parties do with columns of the same records in a script."""

from typing import Any

import numpy as np

import crypten_ext
from crypten_ext import nn
from crypten_ext.nn import optim
from crypten_ext.nn.batches import in_pieces
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from extensions.privacy.randomness import InsecureSeededSource
from tests.helpers.party_tasks.protocols import opened, outcome, session

from crypten import communicator

WIDTHS = (2, 3)
STEPS = 3


def table() -> tuple[Any, Any]:
    """Features of norm 1 at most in each block, and labels."""
    draws = np.random.default_rng(8)
    blocks = [draws.normal(size=(24, width)) for width in WIDTHS]
    x = 0.99 * np.hstack([b / np.maximum(1.0, np.linalg.norm(b, axis=1))[:, None] for b in blocks])
    return np.rint(x * 2**18) / 2**18, (x[:, 0] > x[:, 3]).astype(np.int64)


def trained(context: Context) -> dict[str, Any]:
    """Returns models of the same steps by columns, in pieces too, and by rows of one party."""
    rank = communicator.get().get_rank()
    x, y = table()
    own = np.split(x, [WIDTHS[0]], axis=1)[rank]
    found: dict[str, Any] = {}
    with session():
        for name in ("columns", "pieces", "rows"):
            model = nn.Linear(sum(WIDTHS), 2).encrypt()
            for parameter in model.parameters():
                parameter.share *= 0
            source = InsecureSeededSource(5)
            optimizer = optim.DPSGD(model, 2.0, 0.25, 2.0, 1.0, source=source)
            if name == "rows":
                given = (x / np.sqrt(2), y) if rank == 0 else (None, None)
                batches = crypten_ext.poisson_batches(*given, sample_rate=1.0, steps=STEPS)
            else:
                labels = y if rank == 1 else None
                batches = crypten_ext.column_batches(own, labels, steps=STEPS)
            for features, targets in batches if name != "pieces" else in_pieces(batches, 9):
                optimizer.zero_grad()
                nn.BCEWithLogitsLoss()(model(features), targets).backward()
                optimizer.step()
            found[name] = opened(model.parameters())
        return found


def whitened(context: Context) -> Any:
    """Returns each party's own map, the ledger, and what its maker sent."""
    rank = communicator.get().get_rank()
    own = np.split(table()[0], [WIDTHS[0]], axis=1)[rank]
    with session():
        optimizer = optim.DPSGD(nn.Linear(5, 2).encrypt(), 2.0, 0.25, 2.0, 1.0)
        meter = Meter()
        found = crypten_ext.whiten_columns(own, ledger=optimizer.ledger, noise_multiplier=3.0)
        ledger = [(one.name, one.noise_multiplier) for one in optimizer.ledger.phases]
        rows = found.rows(own)
        return found.digest, ledger, optimizer.ledger.opened, meter.read().rounds, rows.tolist()


def refused(context: Context, *, case: str) -> Any:
    """Returns how batches are refused."""
    rank = communicator.get().get_rank()
    x, y = table()
    own, labels = np.split(x, [WIDTHS[0]], axis=1)[rank], y if rank == 1 else None
    match case:
        case "labels at none":
            labels = None
        case "labels at both":
            labels = y
        case "other persons":
            own, labels = own[rank:], labels if labels is None else labels[rank:]
        case "too long":
            own = own * (3.0 if rank else 1.0)
        case "other steps":
            return outcome(lambda: crypten_ext.column_batches(own, labels, steps=1 + rank))
    with session():
        return outcome(lambda: crypten_ext.column_batches(own, labels, steps=2))
