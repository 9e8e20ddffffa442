"""The command `dpsgd-step`: one step beside plain SGD and materialised clipping, in every host."""

import statistics
import sys
from typing import Annotated, Any

import typer

from benchmarks import spu
from benchmarks.linear_step import FRAC_BITS, PLAIN
from benchmarks.report import publish
from benchmarks.step_hosts import ABY3, CRYPTEN, SERVERS, SPU, Found, measure

MB = 1e6
NAME = "dpsgd-step-3-parties"


def rows_of(host: str, found: Found) -> list[dict[str, Any]]:
    """Returns a host's rows: counts, and bytes and time as multiples of plain SGD's."""
    plain = found[PLAIN]
    return [
        {
            "host": host,
            "step": kind,
            "rounds": "-" if own["rounds"] is None else own["rounds"],
            "MB/party": own["bytes"] / MB,
            "bytes / plain": own["bytes"] / plain["bytes"],
            "median ms": 1000 * statistics.median(own["seconds"]),
            "time / plain": statistics.median(own["seconds"]) / statistics.median(plain["seconds"]),
        }
        for kind, own in found.items()
    ]


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
        [row for host, found in samples.items() for row in rows_of(host, found)],
        samples=samples,
        parties=SERVERS,
        frac_bits=FRAC_BITS,
        steps=steps,
        seed=0,
        network="loopback, a process for each party",
        bytes="a party's mean, sent and received; TCP's count in CrypTen and SPU, the graph's in "
        "ABY3",
        of_spu="18 fractional bits, its sigmoid of three segments, rsqrt of lower accuracy",
        **sizes,
        **(peer or {}),
    )
