"""Inverse square root in CrypTen: error, overshoot, rounds, bytes and time in one run."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import typer

import crypten_ext
from benchmarks.report import publish
from crypten_ext.launch import Parties
from crypten_ext.ring import as_tensor, ring_of
from crypten_ext.worker import Context
from extensions.inverse_sqrt_paper import inverse_sqrt_paper

import crypten
from crypten import communicator

LOW, HIGH, POINTS = 0.01, 300.0, 20_000


def _paper(x: Any) -> Any:
    ring = ring_of(x)
    return as_tensor(ring, inverse_sqrt_paper(ring, x.share))


METHODS: dict[str, Callable[[Any], Any]] = {
    "one-hot, degree 4 (default)": lambda x: x.inverse_sqrt(),
    "one-hot, degree 3": lambda x: x.inverse_sqrt(degree=3),
    "one-hot, degree 2": lambda x: x.inverse_sqrt(degree=2),
    "Protocol 1 as in the paper": _paper,
    "CrypTen inv_sqrt()": lambda x: x.inv_sqrt(),
    "CrypTen sqrt().reciprocal()": lambda x: x.sqrt().reciprocal(),
}


def measure(context: Context, *, frac_bits: int, batch: int, repeats: int) -> list[dict[str, Any]]:
    """Returns one row for each method; runs in every party."""
    crypten_ext.enable()
    crypten.cfg.encoder.precision_bits = frac_bits
    crypten.cfg.communicator.verbose = True
    grid = np.rint(np.linspace(LOW, HIGH, POINTS) * 2**frac_bits) / 2**frac_bits
    points = crypten.cryptensor(torch.from_numpy(grid))
    sample = crypten.cryptensor(torch.from_numpy(grid[:: POINTS // batch][:batch]))
    exact = points.reveal().numpy() / 2**frac_bits
    rows = []
    for name, method in METHODS.items():
        error = method(points).reveal().numpy() / 2**frac_bits * np.sqrt(exact) - 1.0
        times = []
        for _ in range(repeats + 1):
            crypten.reset_communication_stats()
            started = time.perf_counter()
            method(sample)
            times.append(time.perf_counter() - started)
        traffic = communicator.get().get_communication_stats()
        rows.append(
            {
                "method": name,
                "rounds": traffic["rounds"],
                "bytes/element": traffic["bytes"] / batch,
                "worst below, %": -100 * float(error.min()),
                "worst above, %": max(0.0, 100 * float(error.max())),
                "points above, %": 100 * float((error > 0).mean()),
                "median ms": 1000 * statistics.median(times[1:]),
            }
        )
    return rows


def main(
    parties: int = 3,
    frac_bits: int = 16,
    batch: int = typer.Option(128, help="Elements of the timed call."),
    repeats: int = typer.Option(9, help="Timed calls after one warm-up."),
) -> None:
    """1/sqrt(x) for x in 0.01..300 by Protocol 1, one-hot and paper, and by CrypTen's own."""
    with Parties(parties) as pool:
        rows = pool.run(
            "benchmarks.inverse_sqrt:measure", frac_bits=frac_bits, batch=batch, repeats=repeats
        )[0]
    publish(
        f"inverse-sqrt-{parties}-parties-f{frac_bits}",
        rows,
        parties=parties,
        frac_bits=frac_bits,
        batch=batch,
        repeats=repeats,
        network="loopback",
        bytes="CrypTen's count: sent and received",
    )
