"""The command `dpsgd-step`: one step beside plain SGD and materialised clipping, in every host."""

import statistics
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

from benchmarks.benchmark import STEPS, Benchmark, Chart, Result
from benchmarks.instruments import spu
from benchmarks.instruments.costs import BYTES_AND_DEALT, PARTIES
from benchmarks.instruments.hosts import SPU
from benchmarks.network import current
from benchmarks.steps.hosts import HOSTS, Found, measure
from benchmarks.steps.step import FRAC_BITS, PLAIN
from benchmarks.tables import Table, dates, published
from extensions.options import Option
from extensions.rules import one_of

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


@Benchmark(
    STEPS,
    "dpsgd-step",
    "A step of a linear model",
    minutes=2,
    needs="--spu-python for SPU",
    results=[
        Result(
            r"dpsgd-step-\d+-parties",
            "Beside plain SGD, beside the same step with every example's gradient made and "
            "clipped, and beside SPU with its cheapest sigmoid and an `rsqrt` that proves no "
            "bound; batch 128, 512 features, 10 classes, f = 20, a process for each party. Bytes "
            "are what TCP carried to and from a party; ABY3's are its graph's. **A step of ours "
            "sends 0.63 of SPU's bytes in CrypTen, and 0.28 in ABY3.**",
            columns="host | step | rounds | MB/party | MB dealt | bytes / plain | median ms | "
            "time / plain",
            chart=Chart(
                of="dpsgd-step-3-parties",
                labels=("host", "step"),
                values=("MB/party", "median ms"),
                logarithmic=("MB/party", "median ms"),
                ours="^(CrypTen|ABY3).*, DPSGD$",
            ),
        )
    ],
)
def main(
    batch: int = 128,
    features: int = 512,
    classes: int = 10,
    steps: Annotated[int, Option(help="Timed steps of each kind.")] = 5,
    spu_python: Annotated[
        str, Option(help="A Python that has SPU, which may be another environment's.")
    ] = sys.executable,
    host: Annotated[
        list[str] | None,
        Option(help=f"One of {', '.join(HOSTS)}; may be repeated."),
        one_of(HOSTS),
    ] = None,
) -> Iterator[Table]:
    """One step on three parties' shares: rounds, bytes and time, in CrypTen, ABY3 and SPU.

    Other hosts stay in the table as they were recorded before at the same sizes.
    """
    wanted = HOSTS if host is None else tuple(host)
    sizes = {"batch": batch, "features": features, "classes": classes}
    peer = spu.versions(spu_python) if SPU in wanted else None
    before = published(NAME, steps=steps, **sizes)
    samples: dict[str, Found] = dict(before.get("samples", {}))
    recorded = dates(before)
    for name in wanted:
        if name == SPU and peer is None:
            print(
                f"{SPU} is left out: {spu_python} does not have the package spu.", file=sys.stderr
            )
            continue
        samples[name] = measure(name, steps, sizes, processes=True, spu_python=spu_python)
        recorded[name] = datetime.now(UTC).date().isoformat()
    samples = {name: samples[name] for name in HOSTS if name in samples}
    yield Table(
        NAME,
        [row for host, found in samples.items() for row in rows_of(host, found, current())],
        samples=samples,
        parties=PARTIES,
        frac_bits=FRAC_BITS,
        steps=steps,
        seed=0,
        network="loopback, a process for each party",
        transport="CrypTen's parties speak TLS 1.3, but where gloo is said; ABY3's gRPC and SPU's "
        "brpc are in the clear",
        recorded=recorded,
        bytes=f"{BYTES_AND_DEALT}; SPU's as CrypTen's",
        of_spu="18 fractional bits, its sigmoid of three segments, rsqrt of lower accuracy",
        **sizes,
        **(peer or _versions_of_peer(before)),
    )


def _versions_of_peer(before: dict[str, Any]) -> dict[str, str]:
    """Returns those with which SPU was recorded before."""
    settings = before.get("settings", {})
    return {name: text for name, text in settings.items() if "spu" in name.split()}
