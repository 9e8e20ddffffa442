"""1/sqrt(x) in CrypTen: three parties, with a dealer that none of them is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import crypten_ext
from benchmarks.instruments.hosts import CRYPTEN, TRANSPORTS
from benchmarks.instruments.spu_party import timed
from benchmarks.inverse_sqrt.points import batch_of, points
from benchmarks.inverse_sqrt.session import INV_SQRT, OURS, PAPER, PARTIES, SQRT_RECIPROCAL, Session
from crypten_ext import dealer
from crypten_ext.processes.launch import Parties
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from crypten_ext.ring.crypten_ring import as_tensor, ring_of
from extensions.protocols.paper.inverse_sqrt_paper import inverse_sqrt_paper

import crypten

START, ITERATIONS = 0.08, 16
"""Newton's method converges from START while x < 3 / START^2 = 468; at 0.01 it takes 16 steps."""
WARM_UP = 8
"""Calls after which the dealer is as far ahead as it will ever be, and memory is warm."""


def _paper(x: Any) -> Any:
    ring = ring_of(x)
    return as_tensor(ring, inverse_sqrt_paper(ring, x.share))


def _newton(x: Any) -> Any:
    """CrypTen's own iteration, whose default start fails from x = 205 on, from another start."""
    y = crypten.cryptensor(torch.full(x.size(), START, dtype=torch.float64))
    for _ in range(ITERATIONS):
        y = y.mul_(3 - x * y.square()).div_(2)
    return y


METHODS: dict[str, Callable[[Any], Any]] = {
    OURS: lambda x: x.inverse_sqrt(),
    PAPER: _paper,
    INV_SQRT: lambda x: x.inv_sqrt(),
    SQRT_RECIPROCAL: lambda x: x.sqrt().reciprocal(),
    f"Newton, {ITERATIONS} steps from {START}": _newton,
}


def _configure(frac_bits: int) -> None:
    crypten_ext.enable()
    crypten.cfg.mpc.provider = "DEALER"
    crypten.cfg.encoder.precision_bits = frac_bits


def approximate(context: Context, *, frac_bits: int, count: int) -> dict[str, list[float]]:
    """Returns what each method opens at the `points`; in every party."""
    _configure(frac_bits)
    x = crypten.cryptensor(torch.from_numpy(points(frac_bits, count)))
    return {
        name: np.ldexp(method(x).reveal().numpy().astype(np.float64), -frac_bits).tolist()
        for name, method in METHODS.items()
    }


def call(
    context: Context, *, method: str, frac_bits: int, batch: int, calls: int
) -> dict[str, Any]:
    """Returns the seconds from the end of one call to that of the next, and rounds a call."""
    _configure(frac_bits)
    x = crypten.cryptensor(torch.from_numpy(batch_of(frac_bits, batch)))
    meter = Meter()

    def act() -> None:
        dealer.begin_step()
        METHODS[method](x)

    return {"seconds": timed(act, calls), "rounds": meter.read().rounds // calls}


@contextmanager
def session(*, frac_bits: int, host: str = CRYPTEN) -> Iterator[Session]:
    """Yields three parties and a dealer, each a process; host names what carries messages."""
    with Parties(PARTIES, provider="dealer", transport=TRANSPORTS[host]) as pool:

        def run(method: str, batch: int, calls: int) -> dict[str, Any]:
            step: dict[str, Any] = {
                "method": method,
                "frac_bits": frac_bits,
                "batch": batch,
                "calls": calls,
            }
            found: list[dict[str, Any]] = pool.run(f"{__name__}:call", **step)
            return found[0]

        assert pool.dealer_pid is not None
        yield Session(
            host=host,
            pids=pool.pids,
            dealer=[pool.dealer_pid],
            warm_up=lambda method, batch: {"rounds": run(method, batch, WARM_UP)["rounds"]},
            call=lambda *step: list(run(*step)["seconds"]),
        )


def values(*, frac_bits: int, count: int) -> dict[str, list[float]]:
    """Returns each method's approximations at the `points`."""
    with Parties(PARTIES, provider="dealer") as pool:
        found: list[dict[str, list[float]]] = pool.run(
            f"{__name__}:approximate", frac_bits=frac_bits, count=count
        )
    return found[0]
