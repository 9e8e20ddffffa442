"""The time of 1/sqrt(x) on loopback, LAN and WAN, beside the hosts' own and the paper's figures."""

import sys
from typing import Annotated, Any

import typer

from benchmarks.instruments.hosts import ABY3
from benchmarks.inverse_sqrt.error import FRAC_BITS, HostNames, SpuPython
from benchmarks.inverse_sqrt.hosts import TIMED, available
from benchmarks.inverse_sqrt.table import BATCHES, LARGE, table
from benchmarks.network import call, link
from benchmarks.tables import publish
from extensions.errors import ArgumentError

NETWORKS = ("loopback", "lan", "wan")
TIMEOUT = 1200.0


def main(
    network: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(NETWORKS)}; may be repeated.")
    ] = None,
    batch: Annotated[
        list[int] | None, typer.Option(help="Elements of a call; may be repeated.", min=1)
    ] = None,
    host: HostNames = None,
    repeats: Annotated[int, typer.Option(help="Timed calls of each batch.", min=1)] = 5,
    frac_bits: Annotated[int, typer.Option(help="16 or 20.")] = 16,
    spu_python: SpuPython = sys.executable,
) -> None:
    """Time, rounds and bytes of 1/sqrt(x) in CrypTen, ABY3 and SPU, a table for each network.

    By default batches are 1, 32, 64 and 128, and 1024 and 65536.
    """
    if frac_bits not in FRAC_BITS[ABY3]:
        raise ArgumentError("frac_bits", frac_bits, "16 or 20")
    hosts = available(spu_python, host)
    for chosen in [link(name) for name in network or NETWORKS]:
        samples: list[dict[str, Any]] = []
        for one in hosts:
            measured, state = call(
                chosen,
                "benchmarks.inverse_sqrt.hosts:timings",
                timeout=TIMEOUT,
                host=one.name,
                frac_bits=frac_bits,
                plan=_plan(one.name, batch, repeats),
                **one.options,
            )
            samples += [{**sample, "network": state} for sample in measured]
        publish(
            f"inverse-sqrt-runtime-{chosen.profile}",
            table(samples, chosen),
            parties=3,
            frac_bits=frac_bits,
            repeats=repeats,
            network={"one-way ms": chosen.delay_ms, "Mbit/s each way": chosen.mbit},
            milliseconds="median (least-most) of calls that follow each other, in the first "
            "party, or in ABY3's client, where asking and being told are two latencies more",
            bytes="sent by the three parties over TCP at the largest batch of 128 or less",
            dealt="sent by the dealer to the parties, ahead of the calls if it can",
            floor="rounds x latency + half of what the busiest party sends / rate",
            seed="none: inputs are fixed, masks come from the operating system",
            versions={name: value for one in hosts for name, value in one.versions.items()},
            samples=samples,
        )


def _plan(host: str, batches: list[int] | None, repeats: int) -> list[tuple[str, int, int]]:
    """Each method with each batch."""
    wanted = batches or (*BATCHES, *LARGE)
    return [(method, batch, repeats) for method in TIMED[host] for batch in wanted]
