"""``python -m benchmarks fl-budgets``: what one large round takes of a client and of the server."""

import os
from collections.abc import Iterator
from statistics import mean
from typing import Annotated, Any

from benchmarks.benchmark import FEDERATED, Benchmark, Result
from benchmarks.federated.scale.large import BITS, Done, Setting, perform
from benchmarks.tables import Table
from extensions.options import Option
from extensions.rules import Whole

CLIENTS, VALUES = 1000, 1_000_000


@Benchmark(
    FEDERATED,
    "fl-budgets",
    "A thousand clients of a million values",
    minutes=25,
    needs="16 GiB of memory",
    results=[
        Result(
            "fl-budgets-.*",
            "Clients are made anew for each message; the server is a process of its own, and "
            "`before` what Python, torch and the keys take. Bytes beyond the values are the same "
            "for any number of them.",
            columns="corrupt, % | lost, % | in the sum | client, CPU s | kB beyond "
            "values | server, CPU s | server, MB before | server, MB at most",
        )
    ],
)
def main(
    clients: Annotated[int, Option(help="Of the round."), Whole(3)] = CLIENTS,
    values: Annotated[int, Option(help="Of an update."), Whole(1)] = VALUES,
    corrupt: Annotated[float, Option(help="Share that may side with the server.")] = 0.1,
    dropping: Annotated[float, Option(help="Share that may be lost, and is.")] = 0.2,
) -> Iterator[Table]:
    """Processor time and bytes of clients, and time and memory of the server, in one large round.

    All clients are real, with values and checks of their own, and made anew for every message, as
    by an engine that keeps no process; the server is a process of its own.
    """
    setting = Setting(clients=clients, values=values, corrupt=corrupt, dropping=dropping)
    name = f"fl-budgets-{100 * corrupt:g}-{100 * dropping:g}"
    name += "" if clients == CLIENTS else f"-{clients}-clients"
    name += "" if values == VALUES else f"-{values}-values"
    yield Table(name, [row(setting, perform(setting))], load=os.getloadavg()[0])


def row(setting: Setting, done: Done) -> dict[str, Any]:
    """Returns what is published of a round; those who are lost count in no mean."""
    stayed, served = done.served.aggregate.included, done.served
    beyond = [(done.traffic[k] - setting.values * BITS // 8) / 1000 for k in stayed]
    seconds = [done.seconds[k] for k in stayed]
    return {
        "corrupt, %": 100 * setting.corrupt,
        "lost, %": 100 * setting.dropping,
        "clients": setting.clients,
        "values": setting.values,
        "in the sum": len(stayed),
        "client, CPU s": mean(seconds),
        "client, CPU s, most": max(seconds),
        "kB beyond values": mean(beyond),
        "kB beyond values, most": max(beyond),
        "server, CPU s": served.seconds,
        "server, MB before": served.before,
        "server, MB at most": served.peak,
        "largest error": done.error,
    }
