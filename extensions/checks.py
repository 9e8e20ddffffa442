"""Checks of numbers that several settings have in common."""

import math

from extensions.errors import ArgumentError


def check_positive(name: str, value: float) -> None:
    """Raises ArgumentError unless the value is positive and finite."""
    if not 0.0 < value < math.inf:
        raise ArgumentError(name, value, "positive and finite")


def check_seconds(name: str, value: float) -> None:
    """Raises ArgumentError unless the value is a positive number of seconds, finite or not."""
    if not value > 0:
        raise ArgumentError(name, value, "a positive number of seconds")


def check_not_negative(name: str, value: float) -> None:
    """Raises ArgumentError unless the value is finite and at least 0."""
    if not 0.0 <= value < math.inf:
        raise ArgumentError(name, value, "finite, at least 0")
