"""The command `dpsgd-scaling`: how a step grows with batch, features, classes and parties."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np

from benchmarks.benchmark import STEPS, Benchmark, Result
from benchmarks.instruments.costs import BYTES_AND_DEALT, PARTIES
from benchmarks.instruments.hosts import ABY3, CRYPTEN
from benchmarks.steps.hosts import Found, sweep
from benchmarks.steps.step import FRAC_BITS, KINDS, Sizes
from benchmarks.tables import Table
from extensions.errors import ArgumentError
from extensions.options import Option


def power_law(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Returns exponent and R^2 of the straight line through (log x, log y); 0 and 1 of constants.

    Raises:
        ArgumentError: fewer than two different x, or a value that is not positive.
    """
    if len(set(x)) < 2 or min(*x, *y) <= 0:
        rule = "positive, with at least two different x"
        raise ArgumentError("x, y", (list(x), list(y)), rule, code="range")
    log_x, log_y = np.log(x), np.log(y)
    exponent, intercept = np.polyfit(log_x, log_y, 1)
    residual = float(((log_y - exponent * log_x - intercept) ** 2).sum())
    total = float(((log_y - log_y.mean()) ** 2).sum())
    return (float(exponent), 1.0 - residual / total) if total > 1e-20 else (0.0, 1.0)


FACTORS = ("batch", "features", "classes")
MULTIPLES = (0.5, 1.0, 2.0, 4.0)
NUMBERS_OF_PARTIES = tuple(range(2, 9))

Series = dict[str, list[tuple[int, Found]]]
"""For each factor that is varied alone: its values in turn, with what was found."""


def points_of(base: Sizes, multiples: Sequence[float]) -> list[Sizes]:
    """Returns the base point, and its changes in one factor."""
    changed = [
        {**base, name: round(base[name] * m)} for name in FACTORS for m in multiples if m != 1.0
    ]
    return [base, *changed]


def series_of(base: Sizes, points: Sequence[Sizes], found: Sequence[Found]) -> Series:
    """Returns the points that differ from the base in one factor alone, by that factor."""
    by_factor: Series = {}
    for name in FACTORS:
        others = [other for other in FACTORS if other != name]
        near = [
            (point[name], costs)
            for point, costs in zip(points, found, strict=True)
            if all(point[other] == base[other] for other in others)
        ]
        by_factor[name] = sorted(near, key=lambda pair: pair[0])
    return by_factor


def growth_rows(host: str, series: Series, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Returns, for each factor and kind, the exponents of bytes and time with their R^2."""
    rows = []
    for name, pairs in series.items():
        values = [value for value, _ in pairs]
        for kind in kinds:
            own = [found[kind] for _, found in pairs]
            size = power_law(values, [cost["bytes"] for cost in own])
            time = power_law(values, [statistics.median(cost["seconds"]) for cost in own])
            rounds = sorted({cost["rounds"] for cost in own})
            rows.append(
                {
                    "host": host,
                    "step": kind,
                    "varied": f"{name} {values[0]}..{values[-1]}",
                    "rounds": "..".join(map(str, dict.fromkeys((rounds[0], rounds[-1])))),
                    "MB/party": _range([own[0]["bytes"], own[-1]["bytes"]]),
                    "largest MB": _range([own[0]["largest"], own[-1]["largest"]]),
                    "exponent of bytes": size[0],
                    "R² of bytes": size[1],
                    "exponent of time": time[0],
                    "R² of time": time[1],
                }
            )
    return rows


def _range(ends: Sequence[float]) -> str:
    return "..".join(f"{size / 1e6:.3g}" for size in ends)


@Benchmark(
    STEPS,
    "dpsgd-scaling",
    "How a step grows",
    minutes=12,
    results=[
        Result(
            "dpsgd-scaling",
            "Around batch 128, 128 features and 8 classes, one factor varied at a time: exponents "
            "are slopes of log cost over log factor. Bytes add parts that grow with a factor to "
            "parts that do not, so that exponents below 1 are no surprise.",
            columns="host | step | varied | rounds | MB/party | exponent of bytes | exponent of "
            "time",
            where="step = DPSGD",
        )
    ],
)
def main(
    batch: int = 128,
    features: int = 128,
    classes: int = 8,
    steps: Annotated[int, Option(help="Timed steps at each point.")] = 3,
) -> Iterator[Table]:
    """The growth of one step around a base point, one factor varied at a time."""
    base = {"batch": batch, "features": features, "classes": classes}
    points = points_of(base, MULTIPLES)
    growth, samples = [], {}
    for host in (CRYPTEN, ABY3):
        found = sweep(host, steps, points, KINDS)
        samples[host] = [{**at, **costs} for at, costs in zip(points, found, strict=True)]
        series = series_of(base, points, found)
        if host == CRYPTEN:
            others = {
                m: sweep(host, steps, [base], KINDS, parties=m)[0]
                for m in NUMBERS_OF_PARTIES
                if m != PARTIES
            }
            series["parties"] = sorted({**others, PARTIES: found[0]}.items())
            samples[f"{CRYPTEN}, parties"] = [{"parties": m, **f} for m, f in series["parties"]]
        growth += growth_rows(host, series, KINDS)
    yield Table(
        "dpsgd-scaling",
        growth,
        samples=samples,
        parties=PARTIES,
        frac_bits=FRAC_BITS,
        steps=steps,
        seed=0,
        network="loopback for CrypTen, one process for ABY3",
        bytes=BYTES_AND_DEALT,
        **base,
    )
