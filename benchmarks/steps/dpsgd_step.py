"""The command `dpsgd-step`: one step beside plain SGD and materialised clipping, in every host."""

import statistics
import sys
from typing import Annotated, Any

import typer

from benchmarks.instruments import spu
from benchmarks.instruments.costs import BYTES_AND_DEALT, PARTIES
from benchmarks.instruments.hosts import ABY3, CRYPTEN, SPU
from benchmarks.network import current
from benchmarks.steps.hosts import Found, measure
from benchmarks.steps.linear_step import FRAC_BITS, PLAIN
from benchmarks.tables import publish

MB = 1e6
NAME = "dpsgd-step-3-parties"


CHANNELS = 4
"""Ways of a party's bytes: from and to each other party."""


def floor_ms(own: dict[str, Any], network: dict[str, Any]) -> float:
    """Returns the milliseconds below which no step can be on a network, for its rounds and bytes.

    Every round waits for one delay, and the largest party's bytes go over all its `CHANNELS` at
    once, each at the full rate. A dealer's come ahead, over a channel to each party.
    """
    sending, dealing = (
        0.0 if network["Mbit/s"] is None else 8 * size / network["Mbit/s"] / 1000
        for size in (own["largest"] / CHANNELS, own["dealt"] / PARTIES)
    )
    return float(max(own["rounds"] * network["one-way ms"] + sending, dealing))


def rows_of(host: str, found: Found, network: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Returns a host's rows: counts, and bytes and time as multiples of plain SGD's.

    On an emulated network they have its `floor_ms` as well, where rounds are known.
    """
    plain = found[PLAIN]
    rows = [
        {
            "host": host,
            "step": kind,
            "rounds": "-" if own["rounds"] is None else own["rounds"],
            "MB/party": own["bytes"] / MB,
            "largest MB": own["largest"] / MB,
            "MB dealt": own["dealt"] / MB,
            "bytes / plain": own["bytes"] / plain["bytes"],
            "median ms": 1000 * statistics.median(own["seconds"]),
            "time / plain": statistics.median(own["seconds"]) / statistics.median(plain["seconds"]),
        }
        for kind, own in found.items()
    ]
    if network is not None:
        for row, own in zip(rows, found.values(), strict=True):
            known = own["rounds"] is not None
            row["floor ms"] = floor_ms(own, network) if known else "-"
    return rows


def main(
    batch: int = 128,
    features: int = 512,
    classes: int = 10,
    steps: Annotated[int, typer.Option(help="Timed steps of each kind.")] = 5,
    spu_python: Annotated[
        str, typer.Option(help="A Python that has SPU, which may be another environment's.")
    ] = sys.executable,
) -> None:
    """One step on three parties' shares: rounds, bytes and time, in CrypTen, ABY3 and SPU."""
    sizes = {"batch": batch, "features": features, "classes": classes}
    peer = spu.versions(spu_python)
    if peer is None:
        print(f"{SPU} is left out: {spu_python} does not have the package spu.", file=sys.stderr)
    samples = {
        host: measure(host, steps, sizes, processes=True, spu_python=spu_python)
        for host in (CRYPTEN, ABY3, *([SPU] if peer else []))
    }
    publish(
        NAME,
        [row for host, found in samples.items() for row in rows_of(host, found, current())],
        samples=samples,
        parties=PARTIES,
        frac_bits=FRAC_BITS,
        steps=steps,
        seed=0,
        network="loopback, a process for each party",
        bytes=f"{BYTES_AND_DEALT}; SPU's as CrypTen's",
        of_spu="18 fractional bits, its sigmoid of three segments, rsqrt of lower accuracy",
        **sizes,
        **(peer or {}),
    )
