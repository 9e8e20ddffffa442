"""What providers of correlated randomness need, told before any process starts."""

import importlib.util

from extensions.errors import MissingExtraError

PREPARED = ("dealer", "parties")
"""Providers whose tuples can be prepared."""


def check_lattice() -> None:
    """Raises MissingExtraError where parties cannot make tuples for want of SEAL."""
    if importlib.util.find_spec("seal") is None:
        raise MissingExtraError("seal-python", "lattice")
