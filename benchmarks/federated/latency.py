"""``python -m benchmarks fl-latency``: a round's time on the virtual clock, and by formula."""

import math
import os
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import mean, median
from typing import Annotated, Any, NamedTuple

from benchmarks.federated.links import simulated
from benchmarks.federated.schemes import SCHEMES, Latency, Scheme, measure
from benchmarks.instruments.plots import Panel, draw
from benchmarks.pages.entries import NAMES
from benchmarks.tables import publish
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


def main(
    clients: Annotated[
        list[int] | None, Option(help="Numbers of clients; 10, 20, 50 and 100."), Whole(8)
    ] = None,
    values: Annotated[int, Option(help="Of an update."), Whole(1)] = VALUES,
) -> None:
    """Seconds of a round of a star and of chains, measured and by formula, by clients and links."""
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
    publish(
        f"fl-latency{suffix}",
        [latency_row(case, counts, found) for case in cases],
        samples=samples,
        training_seconds=TRAININGS,
        stragglers=f"one client in {ONE_IN}; chains: the mean of {DRAWS} rounds",
        **settings,
    )
    publish(f"fl-cpu{suffix}", [cpu_row(scheme, counts, found) for scheme in SCHEMES], **settings)
    print(draw(f"fl-latency{suffix}", panels(counts, found)))


def _rounds(case: Case, clients: int, values: int) -> list[Latency]:
    usual, slow = TRAININGS["equal"], TRAININGS[case.training]
    training = {k: usual if k % ONE_IN else slow for k in range(clients)}
    network = simulated(case.links)
    draws = DRAWS if case.scheme.in_turn and len(set(training.values())) > 1 else 1
    return [measure(case.scheme, network, training, values) for _ in range(draws)]


def latency_row(case: Case, counts: Sequence[int], found: Found) -> dict[str, Any]:
    """Returns a case's latencies, and by how much they exceed the formula at any number."""
    each = [one for several in found[case].values() for one in several if one.formula is not None]
    last = [one.formula for one in found[case].get(counts[-1], ()) if one.formula is not None]
    over = [100 * (one.measured / one.formula - 1) for one in each if one.formula]
    bound = [100 * one.words / one.formula for one in each if one.formula]
    return {
        "links": NAMES[case.links],
        "training": case.training,
        "scheme": case.scheme.title,
        **{f"{n} clients, s": _mean(case, n, found, "-") for n in counts},
        f"formula, {counts[-1]} clients, s": mean(last) if last else "-",
        "over the formula, %": max(over, default="-"),
        "at most, %": max(bound, default="-"),
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


def panels(counts: Sequence[int], found: Found) -> list[Panel]:
    """Returns a panel for each kind of links and training, with a curve for each scheme."""
    return [
        Panel(
            title=f"{NAMES[links]}, training: {training}",
            x_label="clients",
            y_label="s",
            x=counts,
            curves={
                scheme.title: [
                    _mean(Case(links, training, scheme), n, found, math.nan) for n in counts
                ]
                for scheme in SCHEMES
            },
        )
        for links, training in product(LINKS, TRAININGS)
    ]


def _mean(case: Case, clients: int, found: Found, missing: Any) -> Any:
    rounds = found[case].get(clients)
    return mean(one.measured for one in rounds) if rounds else missing


def _sample(case: Case, clients: int, rounds: Sequence[Latency]) -> dict[str, Any]:
    return {
        "links": case.links,
        "training": case.training,
        "scheme": case.scheme.title,
        "clients": clients,
        "measured, s": [one.measured for one in rounds],
        "formula, s": [one.formula for one in rounds],
        "words at most, s": [one.words for one in rounds],
        "CPU s": [one.cpu for one in rounds],
    }
