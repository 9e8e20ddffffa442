"""What a step costs in CrypTen, ABY3 and SPU, at one size or many."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from benchmarks.instruments.child_process import in_child
from benchmarks.instruments.costs import (
    PARTIES,
    aby3_ring,
    in_variables,
    over_parties,
    owners_rows_ahead,
    parties_cost,
    servers_cost,
    shared_in_crypten,
)
from benchmarks.instruments.hosts import ABY3, CRYPTEN, GLOO, SPU, TRANSPORTS
from benchmarks.instruments.players import local_players
from benchmarks.instruments.spu import SpuParties
from benchmarks.steps.step import FRAC_BITS, KINDS, Sizes, inputs, step_of
from extensions.privacy.randomness import DrawnAhead, SystemSource
from extensions.ring.interface import Share
from extensions.rules import one_of

HOSTS = (CRYPTEN, GLOO, ABY3, SPU)
SPU_PARTY = "benchmarks.steps.spu_party"
Found = dict[str, dict[str, Any]]
"""For each kind of step what `over_parties` says; "rounds" are None where they are not known."""


def in_crypten(context: Any, *, steps: int, kinds: Sequence[str], sizes: Sizes) -> Found:
    """Returns what each kind costs one party, by `costs.parties_cost`; runs in all parties."""
    values = inputs(**sizes)
    ring, (x, *others) = shared_in_crypten(context, values, FRAC_BITS)

    source = DrawnAhead(SystemSource())
    outputs = sizes.get("classes")  # of a single layer
    rows = owners_rows_ahead(context, x, values[0], outputs, source)

    def act(kind: str) -> Any:
        return step_of(ring, kind, [rows(), *others], source=source, **sizes)

    return parties_cost({kind: partial(act, kind) for kind in kinds}, steps)


def in_aby3(
    *, steps: int, kinds: Sequence[str], points: Sequence[Sizes], processes: bool
) -> list[Found]:
    """Returns what each kind costs at each size, by `costs.servers_cost`."""
    with ExitStack() as stack:
        players = stack.enter_context(local_players()) if processes else None
        ring = aby3_ring(FRAC_BITS, players and players.config)

        def act(kind: str, shares: Callable[[], list[Share]], sizes: Sizes) -> Any:
            return step_of(ring, kind, shares(), **sizes)

        found = []
        for sizes in points:
            shares = in_variables(ring, inputs(**sizes))
            acts = {kind: partial(act, kind, shares, sizes) for kind in kinds}
            found.append(servers_cost(ring, acts, steps))
        return found


def in_spu(
    *, steps: int, kinds: Sequence[str], points: Sequence[Sizes], python: str
) -> list[Found]:
    """Returns what each kind costs in SecretFlow SPU's ABY3, by TCP's count; no rounds are told."""
    found = []
    with SpuParties(python, SPU_PARTY) as parties:
        for sizes in points:
            answers = {
                kind: parties.run(task="measure", kind=kind, steps=steps, sizes=sizes, sigma=1.0)
                for kind in kinds
            }
            costs = {kind: [one["cost"] for one in own] for kind, own in answers.items()}
            found.append({kind: over_parties(own) for kind, own in costs.items()})
    return found


def sweep(
    host: str,
    steps: int,
    points: Sequence[Sizes],
    kinds: Sequence[str] = KINDS,
    *,
    parties: int = PARTIES,
    processes: bool = False,
    spu_python: str = sys.executable,
) -> list[Found]:
    """Returns what each kind of step costs at each size, in one set of processes.

    Bytes are the mean of the parties, and those of the largest: what TCP carried in CrypTen and in
    SPU; what the graph counts in ABY3, whose servers may be processes of their own. The number of
    parties is CrypTen's; the others have three.

    Raises:
        ArgumentError: another host.
    """
    one_of(HOSTS).check("host", host)
    options: dict[str, Any] = {"steps": steps, "kinds": list(kinds)}
    if host == ABY3:
        task = "benchmarks.steps.hosts:in_aby3"
        in_one: list[Found] = in_child(task, points=points, processes=processes, **options)
        return in_one
    if host == SPU:
        return in_spu(points=points, python=spu_python, **options)
    from crypten_ext.processes.launch import Parties

    with Parties(parties, provider="dealer", transport=TRANSPORTS[host]) as pool:
        task = "benchmarks.steps.hosts:in_crypten"
        runs = [pool.run(task, sizes=sizes, **options) for sizes in points]
    return [{kind: over_parties([one[kind] for one in found]) for kind in kinds} for found in runs]


def measure(
    host: str, steps: int, sizes: Sizes, kinds: Sequence[str] = KINDS, **options: Any
) -> Found:
    """Returns what each kind of step costs three parties at one size, as `sweep` does."""
    return sweep(host, steps, [sizes], kinds, **options)[0]
