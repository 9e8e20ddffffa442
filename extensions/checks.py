"""Checks of numbers that several settings have in common."""

import math
from collections.abc import Sequence

from extensions.errors import ArgumentError


def check_positive(name: str, value: float) -> None:
    """Raises ArgumentError unless the value is positive and finite."""
    if not 0.0 < value < math.inf:
        raise ArgumentError(name, value, "positive and finite")


def check_weights(name: str, weights: Sequence[float]) -> None:
    """Raises ArgumentError unless all of several weights are in (0, 1], if there are any."""
    if not all(0.0 < weight <= 1.0 for weight in weights):
        raise ArgumentError(name, list(weights), "in (0, 1], each of them")


def check_seconds(name: str, value: float) -> None:
    """Raises ArgumentError unless the value is a positive number of seconds, finite or not."""
    if not value > 0:
        raise ArgumentError(name, value, "a positive number of seconds")


def check_not_negative(name: str, value: float) -> None:
    """Raises ArgumentError unless the value is finite and at least 0."""
    if not 0.0 <= value < math.inf:
        raise ArgumentError(name, value, "finite, at least 0")
