"""Rounds to an accuracy: of a curve, and those that others published, from a reader's file."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError

Published = Mapping[tuple[str, str, str], Mapping[int, int]]
"""Rounds by target accuracy in percent, by model, partition and method."""


def rounds_to(accuracies: Sequence[float], targets: Iterable[int]) -> dict[int, int]:
    """Returns the first round of at least a target, of the targets that are reached."""
    first = {
        target: next((n for n, found in enumerate(accuracies, start=1) if found >= target), None)
        for target in targets
    }
    return {target: number for target, number in first.items() if number is not None}


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
