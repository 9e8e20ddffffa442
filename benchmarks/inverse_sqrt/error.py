"""The error of 1/sqrt(x) from 0.01 to 1e5: Protocol 1, one-hot and paper, beside the hosts' own."""

import sys
from typing import Annotated, Any

import numpy as np

from benchmarks import tables
from benchmarks.instruments.hosts import ABY3, CRYPTEN, SPU
from benchmarks.inverse_sqrt import figures
from benchmarks.inverse_sqrt.hosts import Host, available
from benchmarks.inverse_sqrt.points import FAR, HIGH, LOW, points
from benchmarks.inverse_sqrt.session import INV_SQRT, OURS, PAPER
from benchmarks.inverse_sqrt.summary import row
from benchmarks.network import call, link
from extensions.options import Option
from extensions.rules import Whole, one_of

NAME = "inverse-sqrt-error"
FRAC_BITS = {CRYPTEN: (16, 20), ABY3: (16, 20), SPU: (16, 18, 20)}
"""SPU's own default is 18."""
DRAWN = (
    (CRYPTEN, OURS, 16),
    (CRYPTEN, PAPER, 16),
    (CRYPTEN, INV_SQRT, 16),
    (ABY3, INV_SQRT, 16),
    (SPU, "rsqrt", 18),
)
SpuPython = Annotated[
    str, Option(help="A Python that has SPU, which may be another environment's.")
]

HostNames = Annotated[
    list[str] | None,
    Option(help=f"One of {', '.join(FRAC_BITS)}; may be repeated."),
    one_of(FRAC_BITS),
]


def main(
    count: Annotated[int, Option(help="Points, as many in every decade."), Whole(100)] = 14_000,
    host: HostNames = None,
    spu_python: SpuPython = sys.executable,
) -> None:
    """Error of 1/sqrt(x), x from 0.01 to 1e5, in CrypTen, ABY3 and SPU: a table and two figures."""
    rows: list[dict[str, Any]] = []
    curves: figures.Curves = {}
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
            if (one.name, method, frac_bits) in DRAWN:
                curves[f"{method}, {one.name}, f = {frac_bits}"] = x, y
    tables.RESULTS.mkdir(exist_ok=True)
    figures.draw_linear(curves, tables.RESULTS / f"{NAME}.png")
    figures.draw_logarithmic(curves, tables.RESULTS / f"{NAME}-logarithmic.png")
    tables.publish(
        NAME,
        rows,
        parties=3,
        x=f"{count} points, equally spaced on a logarithmic scale in {LOW}..{FAR:g}",
        range=f"errors are those up to {HIGH:g} unless a column says otherwise",
        figures=f"{NAME}.png, {NAME}-logarithmic.png",
        seed="none: inputs are fixed, masks come from the operating system",
        versions={name: value for one in hosts for name, value in one.versions.items()},
    )


def _runs(hosts: list[Host]) -> list[tuple[int, Host]]:
    """Each host with each of its fixed points, the coarsest first."""
    return sorted(
        ((bits, host) for host in hosts for bits in FRAC_BITS[host.name]), key=lambda run: run[0]
    )
