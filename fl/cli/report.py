"""The report of `pea fl`: what came of a run, what it cost, and who learned what."""

import json
import math
import platform
from collections import Counter
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from extensions import __version__
from fl.cli.mechanisms import epsilon_of
from fl.privacy.distributed_dp import DistributedDP
from fl.round.aggregator import Leaks
from fl.round.messages import party_name
from fl.round.view import Coalition
from fl.training.federated import FederatedAveraging
from fl.weights import get_weights

PACKAGES = ("torch", "numpy", "dp-accounting", *(["opendp"] if find_spec("opendp") else []))
SHOWN = 5
LOST = 0.3
"""Share of a round's clients with whose loss the epsilon of distributed noise is also stated."""


def summary(
    run: FederatedAveraging, title: dict[str, Any], delta: float | None, protects: str | None
) -> dict[str, Any]:
    """Returns what is shown of a run at its end, with `title`, which says what was run."""
    rounds = run.history.rounds
    ledger = run.mechanism.ledger
    private = ledger is not None
    evaluated = [report for report in rounds if report.accuracy is not None]
    return {
        "accuracy": run.history.accuracy,
        "loss": evaluated[-1].loss if evaluated else None,
        "rounds": len(rounds),
        "rounds_failed": sum(bool(report.failure) for report in rounds) or None,
        "epsilon": None if ledger is None else epsilon_of(ledger, delta),
        "delta": (delta or 0.0) if private else None,
        "epsilon_protects": protects,
        **(_with_colluders(run, delta) if delta else {}),
        "bytes_up": sum(report.bytes_up for report in rounds),
        "bytes_down": sum(report.bytes_down for report in rounds),
        "bytes_total": sum(report.bytes_total for report in rounds),
        "seconds": math.fsum(report.seconds for report in rounds),
        "virtual_seconds": math.fsum(report.virtual_seconds for report in rounds) or None,
        "refused": _first(_refused(run)),
        "vanished": _first(_vanished(run)),
        **_learned(run),
        **title,
        "parameters": int(get_weights(run.model).size),
    }


def _with_colluders(run: FederatedAveraging, delta: float) -> dict[str, Any]:
    """Returns epsilon against the server and clients who subtract their shares of the noise.

    Of a client that was selected most often, with nobody lost and with 30 % of the clients of each
    round; fewer than the aggregator needs give no sum.
    """
    mechanism = run.mechanism
    if not isinstance(mechanism, DistributedDP):
        return {}
    cohort = run.plan(len(run.clients)).cohort
    siding = run.aggregator.siding(cohort)
    times = Counter(client for report in run.history for client in report.selected)
    rounds = max(times.values(), default=0)
    lost = {"with_colluders": 0, "with_colluders_30_percent_lost": math.floor(LOST * cohort)}
    return {"colluders": siding} | {
        f"epsilon_{name}": mechanism.epsilon_against(
            max(cohort - gone, run.aggregator.fewest(cohort)), siding, rounds, delta
        )
        for name, gone in lost.items()
    }


def record(
    run: FederatedAveraging, shown: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """Returns what is written: what is shown, the settings, all rounds, and versions."""
    versions = {"pea-mpl": __version__, "python": platform.python_version()}
    return {
        **shown,
        "settings": settings,
        "history": json.loads(run.history.to_json()),
        "versions": versions | {name: version(name) for name in PACKAGES},
    }


def _refused(run: FederatedAveraging) -> list[str]:
    return [
        f"client {client} in round {report.number}: {reason}"
        for report in run.history
        for client, reason in report.refused.items()
    ]


def _vanished(run: FederatedAveraging) -> list[str]:
    return [
        f"{party_name(party)} in round {report.number}"
        for report in run.history
        for party in report.vanished
    ]


def _first(lines: list[str]) -> list[str] | None:
    """Returns the first few of them, and how many more there are; None if there are none."""
    more = len(lines) - SHOWN
    return lines[:SHOWN] + ([f"and {more} more"] if more > 0 else []) or None


def _learned(run: FederatedAveraging) -> dict[str, str]:
    """Returns who learned what of the updates in the last round that succeeded.

    The client with which the server learns most stands for all clients.
    """
    outcome = run.outcome
    if outcome is None or run.transcript != "all":
        return {}
    coalitions = [
        Coalition({client}, server=True)
        for client in {sent.message.receiver for sent in outcome.transcript}
        if client >= 0
    ]
    alone = run.aggregator.leaks_to(Coalition(server=True), outcome)
    worst = max((run.aggregator.leaks_to(each, outcome) for each in coalitions), key=_harm)
    return {"server_learns": _told(alone), "server_and_one_client_learn": _told(worst)}


def _harm(leaks: Leaks) -> list[int]:
    """The smaller the sets, and the more of them, the worse."""
    return [-size for size in sorted(map(len, leaks))]


def _told(leaks: Leaks) -> str:
    """Returns the sets in words, smallest first."""
    words = []
    for size, count in sorted(Counter(map(len, leaks)).items()):
        if size == 1:
            words.append(f"{count} single update{'s' if count > 1 else ''}")
        else:
            sums = "the sum" if count == 1 else f"{count} sums"
            words.append(f"{sums} of {size} updates")
    return ", ".join(words) or "nothing"
