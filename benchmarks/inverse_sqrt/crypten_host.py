"""1/sqrt(x) in CrypTen: three parties, with a dealer that none of them is."""

import time
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch

import crypten_ext
from benchmarks.instruments.hosts import CRYPTEN, TRANSPORTS
from benchmarks.inverse_sqrt.points import batch_of, points
from benchmarks.inverse_sqrt.session import INV_SQRT, OURS, PAPER, PARTIES, SQRT_RECIPROCAL, Count
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
    ends = [time.perf_counter()]
    for _ in range(calls):
        dealer.begin_step()
        METHODS[method](x)
        ends.append(time.perf_counter())
    return {"seconds": np.diff(ends).tolist(), "rounds": meter.read().rounds // calls}


class HostSession:
    """Three parties and a dealer, each a process.

    Args:
        frac_bits: of all numbers.
        host: the name that tables have for it, by what carries its messages.
    """

    def __init__(self, frac_bits: int, host: str = CRYPTEN) -> None:
        self.host, self._frac_bits = host, frac_bits
        self._pool = Parties(PARTIES, provider="dealer", transport=TRANSPORTS[host])

    def __enter__(self) -> Self:
        self._pool.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._pool.__exit__(*error)

    @property
    def pids(self) -> list[int]:
        """The parties' process ids."""
        return self._pool.pids

    @property
    def dealer_pid(self) -> int | None:
        """The dealer's process id."""
        return self._pool.dealer_pid

    def warm_up(self, method: str, batch: int) -> Count:
        """Returns CrypTen's own count of rounds, after as many calls as the dealer deals ahead."""
        return Count(rounds=self._call(method, batch, WARM_UP)["rounds"])

    def call(self, method: str, batch: int, calls: int) -> list[float]:
        """Returns the seconds of each call, the first party's."""
        return list(self._call(method, batch, calls)["seconds"])

    def _call(self, method: str, batch: int, calls: int) -> dict[str, Any]:
        found: list[dict[str, Any]] = self._pool.run(
            "benchmarks.inverse_sqrt.crypten_host:call",
            method=method,
            frac_bits=self._frac_bits,
            batch=batch,
            calls=calls,
        )
        return found[0]


def values(*, frac_bits: int, count: int) -> dict[str, list[float]]:
    """Returns each method's approximations at the `points`."""
    with Parties(PARTIES, provider="dealer") as pool:
        found: list[dict[str, list[float]]] = pool.run(
            "benchmarks.inverse_sqrt.crypten_host:approximate", frac_bits=frac_bits, count=count
        )
    return found[0]
