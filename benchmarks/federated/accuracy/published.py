"""Rounds to an accuracy: of a curve, and those that others published, from a reader's file."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError
from extensions.rules import Whole, one_of

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
        rule = "a JSON file that can be read"
        raise ArgumentError("published", path.name, rule, code="file") from error


def _object(value: Any, name: str, allowed: Collection[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        rule = f"an object of {', '.join(allowed)}"
        raise ArgumentError(f"published: {name}", value, rule, code="file")
    for key in value:
        one_of(allowed).check(f"published: {name}", key)
    return value


def _count(number: Any) -> int:
    Whole(1).check("published: rounds", number)
    return int(number)
