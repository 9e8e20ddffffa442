"""The time of 1/sqrt(x) on loopback, LAN and WAN, beside the hosts' own and the paper's figures."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from benchmarks.benchmark import ROOTS, Benchmark, Chart, Result
from benchmarks.instruments.hosts import ABY3
from benchmarks.inverse_sqrt.error import FRAC_BITS, SpuPython
from benchmarks.inverse_sqrt.hosts import TIMED, available
from benchmarks.inverse_sqrt.table import BATCHES, LARGE, table
from benchmarks.network import call, link
from benchmarks.tables import Table, published
from extensions.options import Option
from extensions.rules import Whole, one_of

NETWORKS = ("loopback", "lan", "wan")
TIMEOUT = 1200.0
_Step = tuple[str, int, int]
"""A method, a batch, and the number of its timed calls."""


@Benchmark(
    ROOTS,
    "inverse-sqrt-runtime",
    "Time of 1/sqrt(x)",
    minutes=40,
    needs="--spu-python for SPU; a network of its own",
    results=[
        Result(
            "inverse-sqrt-runtime-wan",
            "Three processes on a WAN, 20 ms one-way and 100 Mbit/s for each direction of each "
            "connection; median (least-most) of five calls. The floor is rounds x latency + bytes "
            "/ rate; SPU counts no rounds. The last column compares whole systems, not protocols: "
            "the paper's figures are of its authors' machines and networks. Of 65,536 elements "
            "bytes decide rather than rounds: **SPU's `rsqrt` takes 4.5 s, ours 2.0 in CrypTen "
            "and 6.2 in ABY3**.",
            options="--network wan",
            columns="host | method | rounds | bytes/element | dealt bytes/element | ms, 1 | ms, "
            "128 | ms, 65536 | floor, ms | paper / this",
            chart=Chart(
                of="inverse-sqrt-runtime-wan",
                labels=("host", "method"),
                values=("ms, 1", "ms, 128"),
                logarithmic=("ms, 1", "ms, 128"),
            ),
        ),
        Result(
            "inverse-sqrt-runtime-(lan|loopback)",
            "The same without delay, and on a LAN of 0.1 ms and 1 Gbit/s.",
            options="--network lan --network loopback",
        ),
    ],
)
def main(
    network: Annotated[
        list[str] | None, Option(help=f"One of {', '.join(NETWORKS)}; may be repeated.")
    ] = None,
    batch: Annotated[
        list[int] | None, Option(help="Elements of a call; may be repeated."), Whole(1)
    ] = None,
    host: Annotated[
        list[str] | None, Option(help=f"One of {', '.join(TIMED)}; may be repeated.")
    ] = None,
    repeats: Annotated[int, Option(help="Timed calls of each batch."), Whole(1)] = 5,
    frac_bits: Annotated[int, Option(help="16 or 20."), one_of(FRAC_BITS[ABY3])] = 16,
    spu_python: SpuPython = sys.executable,
) -> Iterator[Table]:
    """Time, rounds and bytes of 1/sqrt(x) in CrypTen, ABY3 and SPU, a table for each network.

    By default batches are 1, 32, 64 and 128, and 1024 and 65536. Others, and other hosts, stay in
    the table as they were recorded before with the same repeats and frac-bits.
    """
    hosts = available(spu_python, host)
    for chosen in [link(name) for name in network or NETWORKS]:
        name, same = f"inverse-sqrt-runtime-{chosen.profile}", {"repeats": repeats}
        same["frac_bits"] = frac_bits
        plans = {one.name: _plan(one.name, batch, repeats) for one in hosts}
        samples, versions = _of_others(plans, name, same)
        for one in hosts:
            measured, state = call(
                chosen,
                "benchmarks.inverse_sqrt.hosts:timings",
                timeout=TIMEOUT,
                host=one.name,
                frac_bits=frac_bits,
                plan=plans[one.name],
                **one.options,
            )
            today = datetime.now(UTC).date().isoformat()
            samples += [{**each, "network": state, "recorded": today} for each in measured]
            versions |= one.versions
        samples.sort(key=lambda sample: [*TIMED].index(sample["host"]))
        yield Table(
            name,
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
            transport="CrypTen's parties speak TLS 1.3, but where gloo is said; ABY3's gRPC and "
            "SPU's brpc are in the clear",
            versions=versions,
            samples=samples,
        )


def _of_others(
    plans: Mapping[str, Sequence[_Step]], name: str, same: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Returns samples of what is not measured now, and versions, as they were published."""
    measured = {(host, method, batch) for host, plan in plans.items() for method, batch, _ in plan}
    found = published(name, **same)
    samples = [
        {"recorded": found["recorded"], **sample}
        for sample in found.get("samples", [])
        if (sample["host"], sample["method"], sample["batch"]) not in measured
    ]
    versions: dict[str, str] = dict(found["settings"].get("versions", {})) if samples else {}
    return samples, versions


def _plan(host: str, batches: list[int] | None, repeats: int) -> list[_Step]:
    """Each method with each batch."""
    wanted = batches or (*BATCHES, *LARGE)
    return [(method, batch, repeats) for method in TIMED[host] for batch in wanted]
