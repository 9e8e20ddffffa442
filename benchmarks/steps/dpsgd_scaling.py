"""The command `dpsgd-scaling`: how a step grows with batch, features, classes and parties."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from benchmarks.benchmark import STEPS, Benchmark, Result
from benchmarks.instruments.costs import BYTES_AND_DEALT, PARTIES
from benchmarks.instruments.hosts import ABY3, CRYPTEN
from benchmarks.steps.growth import multilinear, of_parties, power_law
from benchmarks.steps.hosts import Found, sweep
from benchmarks.steps.linear_step import FRAC_BITS, KINDS, Sizes
from benchmarks.tables import Table
from extensions.options import Option

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
