"""What CrypTen parties do to draw batches, and to see how batches are refused."""

import random
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from crypten_ext.nn.batches import poisson_batches
from crypten_ext.nn.provenance import provenance_of
from crypten_ext.processes.worker import Context
from crypten_ext.ring.exchange import open_sum
from extensions.privacy.randomness import InsecureSeededSource
from tests.helpers.party_tasks.protocols import Outcome, outcome, recorded, session

import crypten


def sample(
    context: Context, *, x: Any, y: Any, steps: int, fixed: int | None = None, **settings: Any
) -> dict[str, Any]:
    """Returns every opened batch and its traffic, after seeding what a script may seed.

    With `fixed` the sampling itself is seeded.
    """
    source = None if fixed is None else InsecureSeededSource(fixed)
    with session():
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(3)
        with recorded() as first:
            batches = poisson_batches(x, y, steps=steps, source=source, **settings)
        log = []
        for _ in range(steps):
            with recorded() as traffic:
                batch, targets = next(batches)
            shared = provenance_of(batch).batch.shared
            norms, padding = open_sum([shared.squared_norms, shared.padding])
            log.append(
                {
                    "x": batch.reveal().numpy(),
                    "y": targets.get_plain_text().numpy(),
                    "norms": norms.numpy(),
                    "padding": padding.numpy(),
                    "traffic": [sent["name"] for sent in traffic],
                }
            )
        with suppress(StopIteration):
            next(batches)
            raise AssertionError("more batches than asked for")
        return {"first": [sent["name"] for sent in first], "batches": log}


def attempt(context: Context, *, attempts: list[dict[str, Any]]) -> list[tuple[Outcome, list[str]]]:
    """Returns the outcome of each call of poisson_batches, and the collectives that it made."""
    results = []
    for options in attempts:
        options = {"sample_rate": 0.5, "steps": 2, **options}
        with session(options.pop("frac_bits", 20)), recorded() as traffic:
            x = crypten.cryptensor(options["x"]) if options.pop("encrypt", False) else options["x"]
            traffic.clear()
            found = outcome(lambda x=x, o=options: poisson_batches(**{**o, "x": x}))
        results.append((found, [sent["name"] for sent in traffic]))
    return results
