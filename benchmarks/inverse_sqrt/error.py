"""The error of 1/sqrt(x) from 0.01 to 1e5: Protocol 1, one-hot and paper, beside the hosts' own."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.benchmark import ROOTS, Benchmark, Chart, Result
from benchmarks.instruments.hosts import ABY3, CRYPTEN, SPU
from benchmarks.inverse_sqrt.hosts import Host, available
from benchmarks.inverse_sqrt.points import FAR, HIGH, LOW, points
from benchmarks.network import call, link
from benchmarks.tables import Table
from extensions.options import Option
from extensions.rules import Whole, one_of

Values = NDArray[np.float64]


def relative(x: Values, y: Values) -> Values:
    """Returns (y - 1/sqrt(x)) sqrt(x)."""
    error: Values = y * np.sqrt(x) - 1.0
    return error


def row(x: Values, y: Values) -> dict[str, Any]:
    """Returns a row of the table: worst and mean errors to HIGH, and the worst ones beyond it."""
    near, error = x <= HIGH, relative(x, y)
    absolute = error[near] / np.sqrt(x[near])
    return {
        "worst below, %": _below(100 * error[near]),
        "worst above, %": _above(100 * error[near]),
        "mean, %": float(100 * error[near].mean()),
        "worst below": _below(absolute),
        "worst above": _above(absolute),
        "points above, %": 100 * float((error[near] > 0).mean()),
        "beyond 300: below, %": _below(100 * error[~near]),
        "above, %": _above(100 * error[~near]),
    }


def _below(error: Values) -> float:
    return max(0.0, -float(error.min()))


def _above(error: Values) -> float:
    return max(0.0, float(error.max()))


NAME = "inverse-sqrt-error"
FRAC_BITS = {CRYPTEN: (16, 20), ABY3: (16, 20), SPU: (16, 18, 20)}
"""SPU's own default is 18."""
SpuPython = Annotated[
    str, Option(help="A Python that has SPU, which may be another environment's.")
]

HostNames = Annotated[
    list[str] | None,
    Option(help=f"One of {', '.join(FRAC_BITS)}; may be repeated."),
    one_of(FRAC_BITS),
]


@Benchmark(
    ROOTS,
    "inverse-sqrt-error",
    "Error of 1/sqrt(x)",
    minutes=4,
    needs="--spu-python for SPU",
    results=[
        Result(
            "inverse-sqrt-error",
            "14,000 points from 0.01 to 1e5, as many in every decade; percentages are of "
            "1/sqrt(x), up to 300, the paper's range. Only the one-hot form always stays below "
            "1/sqrt(x), which is what clipping needs. **TF Encrypted's `inv_sqrt()` is nearer to "
            "1/sqrt(x) than ours**, on "
            "both sides of it, in more than twice the rounds. CrypTen's own diverge from x = 205 "
            "on.",
            columns="host | method | f | worst below, % | worst above, % | mean, % | points "
            "above, % | beyond 300: below, % | above, %",
            where="f = 16",
            chart=Chart(
                of="inverse-sqrt-error",
                labels=("host", "method"),
                values=("worst below, %", "worst above, %"),
                logarithmic=("worst below, %", "worst above, %"),
                where="f = 16",
            ),
        )
    ],
)
def main(
    count: Annotated[int, Option(help="Points, as many in every decade."), Whole(100)] = 14_000,
    host: HostNames = None,
    spu_python: SpuPython = sys.executable,
) -> Iterator[Table]:
    """Error of 1/sqrt(x), x from 0.01 to 1e5, in CrypTen, ABY3 and SPU: a table and two figures."""
    rows: list[dict[str, Any]] = []
    hosts = available(spu_python, host or list(FRAC_BITS))
    for frac_bits, one in _runs(hosts):
        x = points(frac_bits, count)
        found, _ = call(
            link("loopback"),
            "benchmarks.inverse_sqrt.hosts:values",
            host=one.name,
            frac_bits=frac_bits,
            count=count,
            **one.options,
        )
        for method, approximations in found.items():
            y = np.asarray(approximations)
            rows.append({"host": one.name, "method": method, "f": frac_bits, **row(x, y)})
    yield Table(
        NAME,
        rows,
        parties=3,
        x=f"{count} points, equally spaced on a logarithmic scale in {LOW}..{FAR:g}",
        range=f"errors are those up to {HIGH:g} unless a column says otherwise",
        seed="none: inputs are fixed, masks come from the operating system",
        versions={name: value for one in hosts for name, value in one.versions.items()},
    )


def _runs(hosts: list[Host]) -> list[tuple[int, Host]]:
    """Each host with each of its fixed points, the coarsest first."""
    return sorted(
        ((bits, host) for host in hosts for bits in FRAC_BITS[host.name]), key=lambda run: run[0]
    )
