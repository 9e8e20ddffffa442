"""The command `dpsgd-scaling`: how a step grows with batch, features, classes and parties."""

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.benchmark import STEPS, Benchmark, Result
from benchmarks.instruments.costs import BYTES_AND_DEALT, PARTIES
from benchmarks.instruments.hosts import ABY3, CRYPTEN
from benchmarks.steps.hosts import Found, sweep
from benchmarks.steps.linear_step import FRAC_BITS, KINDS, Sizes
from benchmarks.tables import Table
from extensions.errors import ArgumentError
from extensions.options import Option

Term = tuple[str, ...]
"""The factors that a coefficient is multiplied by; () for the constant."""


_NOTHING = 1e-9
"""A term that is nowhere so large a part of the cost is what floating point left of zero."""


@dataclass(frozen=True, kw_only=True)
class PowerLaw:
    """y = scale * x^exponent, and the part of log y's variance that it explains."""

    exponent: float
    scale: float
    r_squared: float


@dataclass(frozen=True, kw_only=True)
class Law:
    """y = the sum of coefficient * product of the term's factors.

    Attributes:
        coefficients: of each term, a product of factors.
        worst: the largest relative difference between the law and a value it was fitted to.
    """

    coefficients: dict[Term, float]
    worst: float

    def at(self, point: Mapping[str, float]) -> float:
        """Returns the law's value at a point."""
        return sum(
            value * float(np.prod([point[name] for name in term]))
            for term, value in self.coefficients.items()
        )


def power_law(x: Sequence[float], y: Sequence[float]) -> PowerLaw:
    """Returns the straight line through (log x, log y); R^2 is 1 where y is constant.

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
    if total < 1e-20:
        return PowerLaw(exponent=0.0, scale=float(y[0]), r_squared=1.0)
    return PowerLaw(
        exponent=float(exponent),
        scale=float(np.exp(intercept)),
        r_squared=1.0 - residual / total,
    )


def multilinear(points: Sequence[Mapping[str, float]], values: Sequence[float]) -> Law:
    """Returns the law that is linear in each factor, with the least squared relative residuals.

    Args:
        points: the factors' values, all with the same names.
        values: the positive cost at each point.

    Raises:
        ArgumentError: points that do not determine all coefficients.
    """
    names = list(points[0])
    terms = [term for size in range(len(names) + 1) for term in itertools.combinations(names, size)]
    columns = np.array([[np.prod([p[name] for name in term]) for term in terms] for p in points])
    return _fit(terms, columns, values)


def of_parties(parties: Sequence[int], values: Sequence[float]) -> Law:
    """Returns the law a (n - 1) + b (1 - 1/n) of n parties, with the least squared residuals.

    What each party sends to every other grows as the first, what goes around a ring, or only owners
    send, as the second.

    Raises:
        ArgumentError: fewer than two different numbers of parties.
    """
    n = np.asarray(parties, dtype=np.float64)
    return _fit([("n - 1",), ("1 - 1/n",)], np.column_stack([n - 1, 1 - 1 / n]), values)


def _fit(terms: Sequence[Term], columns: NDArray[np.float64], values: Sequence[float]) -> Law:
    largest = np.abs(columns).max(axis=0)
    y = np.asarray(values, dtype=np.float64)
    scaled, _, rank, _ = np.linalg.lstsq(
        columns / largest / y[:, None], np.ones(len(y)), rcond=None
    )
    if rank < len(terms):
        rule = f"such that they determine {len(terms)} terms"
        raise ArgumentError("points", f"{len(values)} of rank {rank}", rule, code="shape")
    coefficients = scaled / largest
    shares = np.abs(columns * coefficients / y[:, None]).max(axis=0)
    coefficients[shares < _NOTHING] = 0.0
    return Law(
        coefficients={term: float(c) for term, c in zip(terms, coefficients, strict=True)},
        worst=float(np.abs(columns @ coefficients / y - 1.0).max()),
    )


FACTORS = ("batch", "features", "classes")
MULTIPLES = (0.5, 1.0, 2.0, 4.0)
NUMBERS_OF_PARTIES = tuple(range(2, 9))

Series = dict[str, list[tuple[int, Found]]]
"""For each factor that is varied alone: its values in turn, with what was found."""


def points_of(base: Sizes, multiples: Sequence[float]) -> list[Sizes]:
    """Returns the base point, its changes in one factor, and corners that show products.

    The corners lower two factors or all, so that the points determine a law linear in each.
    """
    points = [base]
    for name in FACTORS:
        points += [{**base, name: round(base[name] * m)} for m in multiples if m != 1.0]
    low = {name: round(base[name] * min(multiples)) for name in FACTORS}
    return points + [{**low, name: base[name]} for name in FACTORS] + [low]


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
                    "exponent of bytes": size.exponent,
                    "R² of bytes": size.r_squared,
                    "exponent of time": time.exponent,
                    "R² of time": time.r_squared,
                }
            )
    return rows


def _range(ends: Sequence[float]) -> str:
    return "..".join(f"{size / 1e6:.3g}" for size in ends)


def law_rows(
    host: str, points: Sequence[Sizes], found: Sequence[Found], kinds: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns, for each kind, the bytes a party as a law in batch B, features F and classes K.

    In CrypTen they are those of openings: each word is sent once and received once.
    """
    rows = []
    for kind in kinds:
        own = [costs[kind] for costs in found]
        law = multilinear(points, [cost.get("opened") or cost["bytes"] for cost in own])
        terms = {
            " ".join(name[0].upper() if name != "classes" else "K" for name in term) or "1": value
            for term, value in law.coefficients.items()
        }
        rows.append({"host": host, "step": kind, **terms, "worst residual, %": 100 * law.worst})
    return rows


def parties_rows(host: str, pairs: Sequence[tuple[int, Found]]) -> list[dict[str, Any]]:
    """Returns, for each kind, what TCP carried to and from a party as a law in n parties."""
    rows = []
    for kind in KINDS:
        law = of_parties([n for n, _ in pairs], [found[kind]["bytes"] for _, found in pairs])
        terms = {name: value for (name,), value in law.coefficients.items()}
        rows.append({"host": host, "step": kind, **terms, "worst residual, %": 100 * law.worst})
    return rows


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
        ),
        Result(
            "dpsgd-law",
            "Bytes a party as a law in batch B, features F and classes K. With 8 classes privacy "
            "adds some 320 bytes a row, in ABY3 680, and no term for every entry of every "
            "example's gradient (B F K), which materialised clipping has.",
            columns="*",
        ),
        Result("dpsgd-law-parties", "Bytes a party of CrypTen as a law in the number of parties."),
    ],
)
def main(
    batch: int = 128,
    features: int = 128,
    classes: int = 8,
    steps: Annotated[int, Option(help="Timed steps at each point.")] = 3,
) -> Iterator[Table]:
    """The growth of one step around a base point, one factor varied at a time, and its law."""
    base = {"batch": batch, "features": features, "classes": classes}
    points = points_of(base, MULTIPLES)
    growth, laws, by_parties, samples = [], [], [], {}
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
            by_parties = parties_rows(host, series["parties"])
            samples[f"{CRYPTEN}, parties"] = [{"parties": m, **f} for m, f in series["parties"]]
        growth += growth_rows(host, series, KINDS)
        laws += law_rows(host, points, found, KINDS)
    settings: dict[str, Any] = {
        "parties": PARTIES,
        "frac_bits": FRAC_BITS,
        "steps": steps,
        "seed": 0,
        "network": "loopback for CrypTen, one process for ABY3",
        "bytes": BYTES_AND_DEALT,
        **base,
    }
    yield Table("dpsgd-scaling", growth, samples=samples, **settings)
    yield Table("dpsgd-law-parties", by_parties, fitted_to=NUMBERS_OF_PARTIES, **settings)
    settings["bytes"] = (
        "a party's mean, sent and received: of openings in CrypTen, each word once to another "
        "party; the graph's count in ABY3"
    )
    yield Table("dpsgd-law", laws, fitted_to=points, **settings)
