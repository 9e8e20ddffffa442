"""``python -m benchmarks fl-chain``: statements of Li et al. on their chain, measured."""

import os
from pathlib import Path
from typing import Annotated

from benchmarks.federated.chain import exactness, order, time_limits
from benchmarks.tables import publish
from extensions.options import Option
from extensions.rules import Whole, one_of

PARTS = ("time", "lists", "order", "exact")


def main(
    part: Annotated[
        list[str] | None,
        Option(help=f"One of {', '.join(PARTS)}; once for each; all by default."),
        one_of(PARTS),
    ] = None,
    data_dir: Annotated[
        Path | None, Option(help="Folder of MNIST's files; by default mnist in PEA_DATA.")
    ] = None,
    rounds: Annotated[int, Option(help="Of the runs of exact."), Whole(2)] = 40,
    partition: Annotated[str, Option(help="Of the runs of exact: iid or shards.")] = "shards",
) -> None:
    """Who takes part by Time_limit and lists, the order of computing, and what exact sums mean."""
    picked = part or PARTS
    load = os.getloadavg()[0]
    if "time" in picked:
        settings = {"clients": time_limits.CLIENTS, "values": time_limits.VALUES}
        publish("fl-chain-time", time_limits.limit_rows(), **settings)
    if "lists" in picked:
        publish("fl-chain-lists", time_limits.list_rows(), clients=time_limits.CLIENTS)
    if "order" in picked:
        rows = order.rows()
        publish("fl-chain-order", rows, clients=order.CLIENTS, values=order.VALUES, load=load)
    if "exact" in picked:
        rows = exactness.rows(data_dir, rounds, partition)
        publish("fl-chain-exact", rows, rounds=rounds, lr=exactness.LR, load=load)
