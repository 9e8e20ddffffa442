"""Protocol 2 beside other ways to draw noise that nobody knows: what drawing costs."""

import math
import os
import statistics
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from benchmarks.benchmark import NOISE, Benchmark, Result
from benchmarks.instruments.child_process import in_child
from benchmarks.instruments.costs import (
    BYTES_AND_DEALT,
    aby3_ring,
    over_parties,
    parties_cost,
    servers_cost,
)
from benchmarks.tables import Table
from extensions.options import Option
from extensions.protocols.noise import party_variance
from extensions.ring.interface import Share
from extensions.rules import Whole

PROTOCOL2 = "Protocol 2"
RANDN = "crypten.randn"
FLOATS = "a float Gaussian by each party"
STOCK = f"{RANDN}, stock"
SERVERS = 3
KNOWN = {
    PROTOCOL2: "its own summand; the rest has variance {rest:.3g} sigma²",
    FLOATS: "its own summand, and float rounding may tell more",
    RANDN: "nothing",
    STOCK: "nothing, but party 0, which deals, everything",
}
Draw = Callable[[int], Any]
"""From a number to so many values of shared noise, sigma 1."""


def in_crypten(
    context: Any, *, method: str, frac_bits: int, size: int, repeats: int
) -> dict[str, Any]:
    """Returns one party's cost of `size` values by a method of KNOWN; STOCK is CrypTen as it is."""
    import crypten_ext

    import crypten

    if method != STOCK:
        crypten_ext.enable()
        crypten.cfg.mpc.provider = "DEALER"
    crypten.cfg.encoder.precision_bits = frac_bits
    draw = _drawing(method)
    return parties_cost({method: lambda: draw(size)}, repeats)[method]


def _drawing(method: str) -> Draw:
    """Returns how a method draws shared noise; to be called in a party of CrypTen."""
    import torch

    import crypten_ext

    import crypten
    from crypten import communicator

    parties = communicator.get().get_world_size()
    if method == PROTOCOL2:
        return lambda count: crypten_ext.gaussian_noise((count,), 1.0)
    if method in (RANDN, STOCK):
        return lambda count: crypten.randn((count,))
    own = torch.Generator().manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
    each = math.sqrt(party_variance(parties))

    def floats(count: int) -> Any:
        summands = [
            crypten.cryptensor(
                each * torch.randn(count, generator=own, dtype=torch.float64), src=party
            )
            for party in range(parties)
        ]
        return sum(summands[1:], start=summands[0])

    return floats


def in_aby3(*, frac_bits: int, size: int, repeats: int) -> dict[str, Any]:
    """Returns the cost of Protocol 2."""
    from tfe_ext.ring.private_tensors import share_of

    import tf_encrypted as tfe

    ring = aby3_ring(frac_bits)

    def act() -> list[Share]:
        return [share_of(ring, tfe.gaussian_noise((size,), 1.0))]

    return servers_cost(ring, {PROTOCOL2: act}, repeats)[PROTOCOL2]


def total_variance(method: str, parties: int) -> float:
    """Returns the variance of the sum, in units of the sigma^2 that is asked for."""
    return parties * party_variance(parties) if method in (PROTOCOL2, FLOATS) else 1.0


@Benchmark(
    NOISE,
    "noise",
    "What drawing noise costs",
    minutes=2,
    results=[
        Result(
            "noise-cost",
            "Protocol 2 beside CrypTen's `randn`, Box-Muller under MPC, whose variance is some 3 "
            "% too large and whose tails are too thin. **It has merits**: each part of it stays "
            "secret from all parties, and its variance is sigma² where ours is 1.5 sigma². "
            "Floats by each party would give the exact value away by their rounding (Mironov "
            "2012).",
            columns="*",
        )
    ],
)
def main(
    parties: Annotated[int, Option(help="Parties in CrypTen."), Whole(2)] = 3,
    frac_bits: int = 16,
    size: Annotated[int, Option(help="Values of the timed call.")] = 5130,
    repeats: Annotated[int, Option(help="Timed calls, after one that is not.")] = 5,
) -> Iterator[Table]:
    """What noise of Protocol 2, of CrypTen's randn and of float Gaussians costs."""
    from crypten_ext.processes.launch import Parties

    common: dict[str, Any] = {"frac_bits": frac_bits, "size": size, "repeats": repeats}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for method in KNOWN:
        with Parties(parties, provider="tfp" if method == STOCK else "dealer") as pool:
            costs = pool.run("benchmarks.noise:in_crypten", method=method, **common)
            found["CrypTen", method] = over_parties(costs)
    found["ABY3", PROTOCOL2] = in_child("benchmarks.noise:in_aby3", **common)
    rows = []
    for (host, method), own in found.items():
        members = parties if host == "CrypTen" else SERVERS
        total = total_variance(method, members)
        rest = total - party_variance(members)
        rows.append(
            {
                "host": host,
                "noise": method,
                "rounds": own["rounds"],
                "bytes/element": round(own["bytes"] / size, 1),
                "largest bytes/element": round(own["largest"] / size, 1),
                "dealt bytes/element": own["dealt"] / size,
                f"median ms of {size}": 1000 * statistics.median(own["seconds"]),
                "variance / sigma²": total,
                "what a party knows": KNOWN[method].format(rest=rest),
            }
        )
    yield Table(
        "noise-cost",
        rows,
        samples=[[*who, own["seconds"]] for who, own in found.items()],
        parties=parties,
        **common,
        seed="the operating system's",
        network="loopback for CrypTen, one process for ABY3",
        bytes=BYTES_AND_DEALT,
    )
