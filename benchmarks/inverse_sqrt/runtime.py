"""The time of 1/sqrt(x) on loopback, LAN and WAN, beside the hosts' own and the paper's figures."""

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from benchmarks.benchmark import ROOTS, Benchmark, Chart, Result
from benchmarks.instruments.hosts import ABY3, CRYPTEN
from benchmarks.inverse_sqrt.error import FRAC_BITS, SpuPython
from benchmarks.inverse_sqrt.hosts import TIMED, available
from benchmarks.network import Link, call, link
from benchmarks.tables import Table, published
from extensions.options import Option
from extensions.rules import Whole, one_of

BATCHES = (1, 32, 64, 128)
"""The paper's."""
LARGE = (1024, 65536)
"""What a training step may ask for."""
QUEQIAO, TFE = "Queqiao", "TF Encrypted"
PUBLISHED = {
    "lan": {
        TFE: (28.22, 28.75, 29.28, 29.93),
        QUEQIAO: (22.94, 76.43, 123.37, 233.52),
        CRYPTEN: (170.42, 236.66, 271.64, 318.23),
    },
    "wan": {
        TFE: (841.17, 843.6, 848.0, 848.3),
        QUEQIAO: (456.8, 556.19, 595.79, 701.70),
        CRYPTEN: (4696.42, 6632.96, 6641.89, 6647.64),
    },
}
"""Milliseconds in Ruan et al., S&P 2023, on three parties, for `BATCHES`."""
SAME = {CRYPTEN: CRYPTEN, ABY3: TFE}
"""What the paper ran where we have this host."""
FAR_MS = 5.0
"""From this one-way latency on, time is that of the trips."""
_MS = 1e3
_NONE = "-"


def table(samples: Sequence[dict[str, Any]], network: Link) -> list[dict[str, Any]]:
    """Returns a row for each method, and one for each system of the paper where it has figures."""
    batches = sorted({sample["batch"] for sample in samples} | set(BATCHES))
    published = PUBLISHED.get(network.profile, {})
    methods: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for sample in samples:
        methods.setdefault((sample["host"], sample["method"]), {})[sample["batch"]] = sample
    rows = [
        _row(found, batches, network, published.get(SAME.get(host, ""), ()))
        for (host, _), found in methods.items()
    ]
    for system, figures in published.items():
        times = {_column(b): figures[BATCHES.index(b)] for b in BATCHES}
        name = {"host": f"{system} (paper)", "method": "as published"}
        rows.append({key: (name | times).get(key, _NONE) for key in rows[0]})
    return rows


def _row(
    found: dict[int, dict[str, Any]],
    batches: Sequence[int],
    network: Link,
    published: Sequence[float],
) -> dict[str, Any]:
    batch = max([b for b in found if b <= BATCHES[-1]] or found)
    sample = found[batch]
    floor = floor_ms(sample, network)
    median = _MS * statistics.median(sample["seconds"])
    row: dict[str, Any] = {
        "host": sample["host"],
        "method": sample["method"],
        "rounds": _NONE if sample["rounds"] is None else sample["rounds"],
        "bytes/element": round(sum(sample["sent"]) / batch),
        "dealt bytes/element": round(sample["dealt"] / batch),
    }
    for b in batches:
        row[_column(b)] = _spread(found[b]["seconds"]) if b in found else _NONE
    if network.delay_ms:
        row["floor, ms"] = _NONE if floor is None else floor
        row["time / floor"] = _NONE if floor is None else median / floor
    if network.delay_ms >= FAR_MS:
        row["time / latency"] = median / network.delay_ms
    if network.profile in PUBLISHED:
        compared = published and batch in BATCHES
        row["paper / this"] = published[BATCHES.index(batch)] / median if compared else _NONE
    return row


def floor_ms(sample: dict[str, Any], network: Link) -> float | None:
    """Returns the least milliseconds of any implementation with these rounds and bytes.

    The party that sends most has a connection to each of the two others, each with the network's
    rate. None where the rounds are unknown.
    """
    if sample["rounds"] is None or network.mbit is None:
        return None
    sending = 8 * max(sample["sent"]) / 2 / (1e3 * network.mbit)
    return float(sample["rounds"] * network.delay_ms + sending)


def _column(batch: int) -> str:
    return f"ms, {batch}"


def _spread(seconds: Sequence[float]) -> str:
    low, middle, high = (_figures(_MS * f(seconds)) for f in (min, statistics.median, max))
    return f"{middle} ({low}-{high})"


def _figures(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


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
            "and 1.8 in ABY3**.",
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
