"""What the parties of test_samples.py draw, multiply and send, step by step."""

from typing import Any

import numpy as np
import torch

from crypten_ext import dealer
from crypten_ext.processes.worker import Context
from crypten_ext.ring.exchange import open_sum
from crypten_ext.ring.factors import share_rows
from crypten_ext.run.host import CrypTenHost
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import check_records
from tests.helpers.party_tasks.dealer import use

from crypten import communicator

BITS, INPUTS, CLASSES = 16, 6, 2


def steps(
    context: Context, *, records: int, foreseen: int, made: int, seed: int | None
) -> dict[str, Any]:
    """Returns, of each step, its product and the payload sent in it, and what was asked for.

    Args:
        context: this party's.
        records: of each party, all of which are in every sample.
        foreseen: number of steps that the host is told of.
        made: number of steps.
        seed: of the sampling; None for the system's.
    """
    use("DEALER")
    asked = dealer.current().rehearse()
    host = CrypTenHost(BITS, SystemSource() if seed is None else InsecureSeededSource(seed))
    x = np.random.default_rng(context.rank).uniform(-0.4, 0.4, (records, INPUTS))
    own = check_records(
        x, np.arange(records) % CLASSES, frac_bits=BITS, classes=CLASSES, max_feature_norm=1.0
    )
    rows, mesh = [records] * context.world_size, communicator.get().main_group.mesh
    w = share_rows(rows, [np.zeros((records, CLASSES), dtype=np.int64)])[0][:INPUTS]
    if context.rank == 0:
        w = w + torch.ones_like(w)
    host.prefetch(foreseen, CLASSES)
    sums, sent = [], []
    for _ in range(made):
        before = mesh.payload[0]
        batch = next(iter(host.samples(host.place([own]), rows, 1.0, 1)))
        (product,) = host.ring.matmul([(batch.x, w)])
        sent.append(mesh.payload[0] - before)
        sums.append(np.sort(open_sum([product])[0].numpy(), axis=None))
    kinds = [[(one.kind, one.parameters) for one in step] for step in asked]
    expected = np.sort(np.repeat(own.features.sum(1), CLASSES))
    return {"sums": sums, "sent": sent, "asked": kinds, "own": expected}
