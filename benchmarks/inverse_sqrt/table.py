"""Samples of one network as a table, with the paper's figures and the network's own share."""

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.instruments.hosts import ABY3, CRYPTEN
from benchmarks.network import Link

BATCHES = (1, 32, 64, 128)
"""The paper's."""
LARGE = (1024, 65536)
"""What a training step may ask for."""
QUEQIAO, TFE = "Queqiao", "TF Encrypted"
PUBLISHED = {
    "lan": {
        TFE: (28.22, 28.75, 29.28, 29.93),
        QUEQIAO: (22.94, 76.43, 123.37, 233.52),
        CRYPTEN: (170.42, 236.66, 271.64, 318.23),
    },
    "wan": {
        TFE: (841.17, 843.6, 848.0, 848.3),
        QUEQIAO: (456.8, 556.19, 595.79, 701.70),
        CRYPTEN: (4696.42, 6632.96, 6641.89, 6647.64),
    },
}
"""Milliseconds in Ruan et al., S&P 2023, on three parties, for `BATCHES`."""
SAME = {CRYPTEN: CRYPTEN, ABY3: TFE}
"""What the paper ran where we have this host."""
FAR_MS = 5.0
"""From this one-way latency on, time is that of the trips."""
_MS = 1e3
_NONE = "-"


def table(samples: Sequence[dict[str, Any]], network: Link) -> list[dict[str, Any]]:
    """Returns a row for each method, and one for each system of the paper where it has figures."""
    batches = sorted({sample["batch"] for sample in samples} | set(BATCHES))
    published = PUBLISHED.get(network.profile, {})
    methods: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for sample in samples:
        methods.setdefault((sample["host"], sample["method"]), {})[sample["batch"]] = sample
    rows = [
        _row(found, batches, network, published.get(SAME.get(host, ""), ()))
        for (host, _), found in methods.items()
    ]
    for system, figures in published.items():
        times = {_column(b): figures[BATCHES.index(b)] for b in BATCHES}
        name = {"host": f"{system} (paper)", "method": "as published"}
        rows.append({key: (name | times).get(key, _NONE) for key in rows[0]})
    return rows


def _row(
    found: dict[int, dict[str, Any]],
    batches: Sequence[int],
    network: Link,
    published: Sequence[float],
) -> dict[str, Any]:
    batch = max([b for b in found if b <= BATCHES[-1]] or found)
    sample = found[batch]
    floor = floor_ms(sample, network)
    median = _MS * statistics.median(sample["seconds"])
    row: dict[str, Any] = {
        "host": sample["host"],
        "method": sample["method"],
        "rounds": _NONE if sample["rounds"] is None else sample["rounds"],
        "bytes/element": round(sum(sample["sent"]) / batch),
        "dealt bytes/element": round(sample["dealt"] / batch),
    }
    for b in batches:
        row[_column(b)] = _spread(found[b]["seconds"]) if b in found else _NONE
    if network.delay_ms:
        row["floor, ms"] = _NONE if floor is None else floor
        row["time / floor"] = _NONE if floor is None else median / floor
    if network.delay_ms >= FAR_MS:
        row["time / latency"] = median / network.delay_ms
    if network.profile in PUBLISHED:
        compared = published and batch in BATCHES
        row["paper / this"] = published[BATCHES.index(batch)] / median if compared else _NONE
    return row


def floor_ms(sample: dict[str, Any], network: Link) -> float | None:
    """Returns the least milliseconds of any implementation with these rounds and bytes.

    The party that sends most has a connection to each of the two others, each with the network's
    rate. None where the rounds are unknown.
    """
    if sample["rounds"] is None or network.mbit is None:
        return None
    sending = 8 * max(sample["sent"]) / 2 / (1e3 * network.mbit)
    return float(sample["rounds"] * network.delay_ms + sending)


def _column(batch: int) -> str:
    return f"ms, {batch}"


def _spread(seconds: Sequence[float]) -> str:
    low, middle, high = (_figures(_MS * f(seconds)) for f in (min, statistics.median, max))
    return f"{middle} ({low}-{high})"


def _figures(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
