"""Rounds to an accuracy that others published, from a file that a reader writes."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError

Published = Mapping[tuple[str, str, str], Mapping[int, int]]
"""Rounds by target accuracy in percent, by model, partition and method."""


def read(
    path: Path,
    models: Collection[str],
    partitions: Collection[str],
    methods: Collection[str],
    targets: Collection[int],
) -> Published:
    """Returns what a JSON file has: ``{model: {partition: {method: {target: rounds}}}}``.

    Raises:
        ArgumentError: no such file, or one of another form, or a name or target that is none of
            those given.
    """
    found: dict[tuple[str, str, str], dict[int, int]] = {}
    for model, parts in _object(_content(path), "model", models).items():
        for partition, ways in _object(parts, "partition", partitions).items():
            for method, rounds in _object(ways, "method", methods).items():
                texts = [str(target) for target in targets]
                found[model, partition, method] = {
                    int(target): _count(number)
                    for target, number in _object(rounds, "target", texts).items()
                }
    return found


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ArgumentError("published", path.name, "a JSON file that can be read") from error


def _object(value: Any, name: str, allowed: Collection[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ArgumentError(f"published: {name}", value, f"an object of {', '.join(allowed)}")
    if wrong := [key for key in value if key not in allowed]:
        raise ArgumentError(f"published: {name}", wrong[0], f"one of {', '.join(allowed)}")
    return value


def _count(number: Any) -> int:
    if not isinstance(number, int) or number < 1:
        raise ArgumentError("published: rounds", number, "a number of at least 1")
    return number
