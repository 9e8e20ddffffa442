"""``python -m benchmarks fl-latency``: a round's time on the virtual clock."""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from statistics import mean, median
from typing import Annotated, Any, NamedTuple

from benchmarks.benchmark import FEDERATED, Benchmark, Chart, Result
from benchmarks.federated.links import simulated
from benchmarks.federated.schemes import SCHEMES, Latency, Scheme, measure
from benchmarks.tables import Table
from extensions.cli import console
from extensions.options import Option
from extensions.rules import Whole

CLIENTS = (10, 20, 50, 100)
VALUES = 199_210
"""Of the MLP."""
LINKS = ("lan", "wan")
TRAININGS = {"equal": 1.0, "stragglers": 5.0}
"""Seconds that one client in ONE_IN trains; the others train those of "equal"."""
ONE_IN = 10
DRAWS = 3
"""Rounds with stragglers, where their places in a chain are random."""


class Case(NamedTuple):
    """What decides a latency besides the number of clients."""

    links: str
    training: str
    scheme: Scheme


Found = Mapping[Case, Mapping[int, Sequence[Latency]]]
"""The rounds of each case, by number of clients."""


@Benchmark(
    FEDERATED,
    "fl-latency",
    "Latency of a round",
    minutes=3,
    results=[
        Result(
            "fl-latency(-.*)?",
            "One aggregation of 199,210 values on the virtual clock; a client trains for 1 s. A "
            "star takes as long as its slowest client; a chain adds a hop for each client, and k "
            "chains side by side a hop for every k. The clock knows no computing.",
            columns="scheme | 10 clients, s | 20 clients, s | 50 clients, s | 100 clients, s",
            where="links = WAN and training = equal",
            chart=Chart(
                of="fl-latency",
                labels=("scheme",),
                values=("s",),
                x="* clients, s",
                logarithmic=("* clients, s", "s"),
                ours="masked",
                where="links = WAN and training = equal",
            ),
        ),
        Result(
            "fl-cpu(-.*)?",
            "What all parties of it compute together, in one process, and send.",
            columns="scheme | 10 clients, CPU s | 10 clients, MB | 100 clients, CPU s | 100 "
            "clients, MB",
        ),
    ],
)
def main(
    clients: Annotated[
        list[int] | None, Option(help="Numbers of clients; 10, 20, 50 and 100."), Whole(8)
    ] = None,
    values: Annotated[int, Option(help="Of an update."), Whole(1)] = VALUES,
) -> Iterator[Table]:
    """Seconds of a round of a star and of chains, by clients and links."""
    counts = sorted(set(clients or CLIENTS))
    cases = [Case(*one) for one in product(LINKS, TRAININGS, SCHEMES)]
    found: dict[Case, dict[int, list[Latency]]] = {}
    with console.counted("case") as show:
        for done, case in enumerate(cases):
            show(done, len(cases))
            found[case] = {n: _rounds(case, n, values) for n in counts if n <= case.scheme.most}
        show(len(cases), len(cases))
    suffix = "" if clients is None else f"-{'-'.join(map(str, counts))}-clients"
    suffix += "" if values == VALUES else f"-{values}-values"
    settings = {"values": values, "clients": counts, "load": os.getloadavg()[0]}
    samples = [_sample(case, n, each) for case in cases for n, each in found[case].items()]
    yield Table(
        f"fl-latency{suffix}",
        [latency_row(case, counts, found) for case in cases],
        samples=samples,
        training_seconds=TRAININGS,
        stragglers=f"one client in {ONE_IN}; chains: the mean of {DRAWS} rounds",
        **settings,
    )
    yield Table(
        f"fl-cpu{suffix}", [cpu_row(scheme, counts, found) for scheme in SCHEMES], **settings
    )


def _rounds(case: Case, clients: int, values: int) -> list[Latency]:
    usual, slow = TRAININGS["equal"], TRAININGS[case.training]
    training = {k: usual if k % ONE_IN else slow for k in range(clients)}
    network = simulated(case.links)
    draws = DRAWS if case.scheme.in_turn and len(set(training.values())) > 1 else 1
    return [measure(case.scheme, network, training, values) for _ in range(draws)]


def latency_row(case: Case, counts: Sequence[int], found: Found) -> dict[str, Any]:
    """Returns a case's latencies."""
    return {
        "links": case.links.upper(),
        "training": case.training,
        "scheme": case.scheme.title,
        **{f"{n} clients, s": _mean(case, n, found) for n in counts},
    }


def cpu_row(scheme: Scheme, counts: Sequence[int], found: Found) -> dict[str, Any]:
    """Returns a scheme's median processor time and bytes of a round, by number of clients."""
    of_scheme = [rounds for case, rounds in found.items() if case.scheme == scheme]
    row: dict[str, Any] = {"scheme": scheme.title}
    for n in counts:
        each = [one for rounds in of_scheme for one in rounds.get(n, ())]
        row[f"{n} clients, CPU s"] = median(one.cpu for one in each) if each else "-"
        row[f"{n} clients, MB"] = median(one.megabytes for one in each) if each else "-"
    return row


def _mean(case: Case, clients: int, found: Found) -> float | str:
    rounds = found[case].get(clients)
    return mean(one.measured for one in rounds) if rounds else "-"


def _sample(case: Case, clients: int, rounds: Sequence[Latency]) -> dict[str, Any]:
    return {
        "links": case.links,
        "training": case.training,
        "scheme": case.scheme.title,
        "clients": clients,
        "measured, s": [one.measured for one in rounds],
        "CPU s": [one.cpu for one in rounds],
    }
