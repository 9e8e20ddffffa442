"""``python -m benchmarks fl-flower``: rounds on Flower, ours beside its SecAgg+ and its FedAvg."""

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

from benchmarks.benchmark import FEDERATED, Benchmark, Chart, Result
from benchmarks.federated.flower.deployed import measure
from benchmarks.federated.flower.setting import BITS, FEDAVG, OURS, SECAGG, STAGES, Setting
from benchmarks.instruments.child_process import in_python
from benchmarks.tables import Table
from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.rules import Whole, one_of

CLIENTS, VALUES = (5, 20, 50), (10_000, 100_000, 1_000_000)
GONE = (0.01, 0.2)
NODES = 5
"""SuperNodes of a deployment by default, each with processes of its own."""
PARTS = ("costs", "lost", "processes")
ENGINE = "benchmarks.federated.flower.engine"


@Benchmark(
    FEDERATED,
    "fl-flower",
    "A round on Flower",
    minutes=30,
    needs="--flower-python",
    results=[
        Result(
            "fl-flower-costs",
            "Beside Flower 1.42's SecAgg+, with as many shares and the same threshold, and its "
            "FedAvg, in which the server reads every model. **Where Flower's is better**: of a "
            "million values and up to 20 clients its clients compute less, 0.09 s where ours "
            "take 0.28 s with 5, and it asks a client four times in a round, ours six.",
            options="--part costs --flower-python PYTHON",
            columns="clients | values | way | messages | kB a client | client, CPU s | server, "
            "CPU s",
            where="values = 1000000",
            chart=Chart(
                of="fl-flower-costs",
                labels=("way",),
                values=("client, CPU s", "server, CPU s"),
                x="clients",
                logarithmic=("clients", "client, CPU s", "server, CPU s"),
                where="values = 100000",
            ),
        ),
        Result(
            "fl-flower-lost",
            "One or ten of 50 leave at some message. SecAgg+ loses the round if they leave "
            "before they have dealt shares; ours goes on.",
            options="--part lost --flower-python PYTHON",
        ),
        Result(
            r"fl-flower-processes-\d+",
            "A SuperLink with TLS and SuperNodes that authenticate, on two cores: a message waits "
            "for polling and a new process, so that **FedAvg's and SecAgg+'s rounds of five "
            "clients are 5 and 1.5 times as fast as ours**.",
            options="--part processes --flower-python PYTHON",
            columns="clients | way | messages | seconds a round | in the sum",
            where="values = 1000000",
        ),
    ],
)
def main(
    flower_python: Annotated[str, Option(help="A Python that has flwr, and fl's packages.")],
    part: Annotated[
        list[str] | None,
        Option(help=f"One of {', '.join(PARTS)}; all by default."),
        one_of(PARTS),
    ] = None,
    clients: Annotated[
        list[int] | None,
        Option(help="Numbers of clients; 5, 20 and 50, of processes 5."),
        Whole(3),
    ] = None,
    values: Annotated[
        list[int] | None, Option(help="Sizes of a model; 10000, 100000, 1000000."), Whole(200)
    ] = None,
    copies: Annotated[
        bool,
        Option(help="Of processes: client apps are copies of one that has imported all they need."),
    ] = False,
) -> Iterator[Table]:
    """Bytes, processor time and seconds of a round on Flower, and what is lost with clients.

    Costs and losses are counted on an engine in one process, which encodes every message as Flower
    does; processes are a SuperLink with TLS and a SuperNode a client.
    """
    counts, sizes = tuple(clients or CLIENTS), tuple(values or VALUES)
    if wrong := [size for size in sizes if size % 100]:
        raise ArgumentError("values", wrong[0], "a multiple of 100", code="range")
    for name in part or PARTS:
        match name:
            case "costs":
                rows = cost_rows(flower_python, counts, sizes)
            case "lost":
                rows = lost_rows(flower_python, counts, sizes[0])
            case _:
                for count in clients or (NODES,):
                    rows = process_rows(flower_python, count, sizes, copies=copies)
                    load = os.getloadavg()[0]
                    yield Table(f"fl-flower-processes-{count}", rows, copies=copies, load=load)
                continue
        yield Table(f"fl-flower-{name}", rows, load=os.getloadavg()[0])


def performed(python: str, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Returns what each setting's rounds took on the engine in one process.

    Raises:
        ArgumentError: the Python has no flwr, or another one.
    """
    needs = ("flower_python", "flwr 1.42")
    env = {"FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    given = json.dumps([*map(asdict, settings)])
    found: list[dict[str, Any]] = in_python(*needs, python, "-m", ENGINE, given, **env)
    return found


def cost_rows(python: str, counts: Sequence[int], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Returns what rounds cost in which nobody is lost."""
    settings = [
        Setting(way=way, clients=count, values=size)
        for count in counts
        for size in sizes
        for way in STAGES
    ]
    return [
        {
            "clients": setting.clients,
            "values": setting.values,
            "way": setting.way,
            "messages": len(STAGES[setting.way]),
            "kB a client": found["bytes"] / 1000,
            "of them not values": (found["bytes"] - plain_bytes(setting)) / 1000,
            "client, CPU s": found["client"],
            "server, CPU s": found["server"],
            "largest error": found["error"],
        }
        for setting, found in zip(settings, performed(python, settings), strict=True)
    ]


def plain_bytes(setting: Setting) -> int:
    """Returns the bytes of a model in single precision and of an update in 32 bits."""
    return 2 * setting.values * BITS // 8


def lost_rows(python: str, counts: Sequence[int], size: int) -> list[dict[str, Any]]:
    """Returns who is in the sum where some no longer answer from a stage on."""
    rows = []
    for count in counts:
        for way in (OURS, SECAGG, FEDAVG):
            for stage, name in enumerate(STAGES[way]):
                setting = Setting(way=way, clients=count, values=size, stage=stage)
                lost = [math.ceil(share * count) for share in GONE]
                settings = [replace(setting, lost=each) for each in dict.fromkeys(lost)]
                rows += [(name, each) for each in settings]
    found = performed(python, [setting for _, setting in rows])
    return [
        {
            "clients": setting.clients,
            "lost": setting.lost,
            "way": setting.way,
            "no longer answer": name,
            "in the sum": each["included"][0] or "the round is lost",
            "largest error": "-" if each["error"] is None else each["error"],
            "client, CPU s": each["client"],
            "server, CPU s": each["server"],
        }
        for (name, setting), each in zip(rows, found, strict=True)
    ]


def process_rows(
    python: str, count: int, sizes: Sequence[int], *, copies: bool = False
) -> list[dict[str, Any]]:
    """Returns what the second of two rounds takes on real processes of so many clients."""
    settings = [
        Setting(way=way, clients=count, values=size, rounds=2) for size in sizes for way in STAGES
    ]
    return [
        {
            "clients": setting.clients,
            "values": setting.values,
            "way": setting.way,
            "messages": len(STAGES[setting.way]),
            "seconds a round": found["seconds"][-1],
            "client's processes, CPU s": found["client"],
            "SuperLink and server, CPU s": found["server"],
            "in the sum": found["included"][-1],
        }
        for setting, found in zip(settings, measure(python, settings, copies=copies), strict=True)
    ]
