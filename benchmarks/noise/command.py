"""The command `noise`: Protocol 2 beside other ways to draw noise that nobody knows."""

import math
import statistics
from typing import Annotated, Any

import numpy as np

from benchmarks.instruments.child_process import in_child
from benchmarks.instruments.costs import BYTES_AND_DEALT, over_parties
from benchmarks.noise.hosts import FLOATS, PROTOCOL2, RANDN
from benchmarks.noise.statistics import summary
from benchmarks.tables import publish
from crypten_ext.processes.launch import Parties
from extensions.options import Option
from extensions.protocols.noise import party_variance
from extensions.rules import Whole

SIGMAS = (2.0**-10, 1.0, 2.0**10)
STOCK = f"{RANDN}, stock"
CHUNK = 20_000
SERVERS = 3
KNOWN = {
    PROTOCOL2: "its own summand; the rest has variance {rest:.3g} sigma²",
    FLOATS: "its own summand, and float rounding may tell more",
    RANDN: "nothing",
    STOCK: "nothing, but party 0, which deals, everything",
}


def in_crypten(parties: int, options: dict[str, Any]) -> dict[tuple[str, float], dict[str, Any]]:
    """Returns each method's draws and cost in CrypTen, of `crypten.randn` at sigma 1 alone."""
    found = {}
    with Parties(parties, provider="dealer") as pool:
        runs = [(PROTOCOL2, sigma) for sigma in SIGMAS] + [(FLOATS, 1.0), (RANDN, 1.0)]
        for method, sigma in runs:
            task = "benchmarks.noise.hosts:in_crypten"
            found[method, sigma] = over_parties(
                pool.run(task, method=method, sigma=sigma, **options)
            )
    with Parties(parties) as pool:
        stock = pool.run("benchmarks.noise.hosts:in_stock_crypten", **options)
        found[STOCK, 1.0] = over_parties(stock)
    return found


def total_variance(method: str, parties: int) -> float:
    """Returns the variance of the sum, in units of the sigma^2 that is asked for."""
    return parties * party_variance(parties) if method in (PROTOCOL2, FLOATS) else 1.0


def main(
    parties: Annotated[int, Option(help="Parties in CrypTen."), Whole(2)] = 3,
    frac_bits: int = 16,
    draws: Annotated[int, Option(help="Values opened for the statistics.")] = 200_000,
    size: Annotated[int, Option(help="Values of the timed call.")] = 5130,
    repeats: Annotated[int, Option(help="Timed calls, after one that is not.")] = 5,
) -> None:
    """Noise of Protocol 2, of CrypTen's randn and of float Gaussians: statistics and costs."""
    common = {"frac_bits": frac_bits, "draws": draws, "size": size, "repeats": repeats}
    found: dict[tuple[str, str, float], dict[str, Any]] = {}
    for (method, sigma), own in in_crypten(parties, {**common, "chunk": CHUNK}).items():
        found["CrypTen", method, sigma] = own
    answers = in_child("benchmarks.noise.hosts:in_aby3", sigmas=SIGMAS, **common)
    for sigma, own in zip(SIGMAS, answers, strict=True):
        found["ABY3", PROTOCOL2, sigma] = own
    laws, costs, samples = [], [], []
    for (host, method, sigma), own in found.items():
        members = parties if host == "CrypTen" else SERVERS
        total = total_variance(method, members)
        scale = math.ldexp(sigma * math.sqrt(total), frac_bits)
        who = {"host": host, "noise": method}
        law = summary(np.asarray(own["draws"], dtype=np.int64), scale)
        laws.append({**who, "sigma": sigma, **law})
        samples.append({**who, "sigma": sigma, "seconds": own["seconds"]})
        if sigma == 1.0:
            rest = total - party_variance(members)
            costs.append(
                {
                    **who,
                    "rounds": own["rounds"],
                    "bytes/element": round(own["bytes"], 1),
                    "largest bytes/element": round(own["largest"], 1),
                    "dealt bytes/element": own["dealt"],
                    f"median ms of {size}": 1000 * statistics.median(own["seconds"]),
                    "variance / sigma²": total,
                    "what a party knows": KNOWN[method].format(rest=rest),
                }
            )
    settings: dict[str, Any] = {
        "parties": parties,
        **common,
        "seed": "the operating system's",
        "network": "loopback for CrypTen, one process for ABY3",
        "bytes": BYTES_AND_DEALT,
    }
    publish("noise-statistics", laws, **settings)
    print()
    publish("noise-cost", costs, samples=samples, **settings)
