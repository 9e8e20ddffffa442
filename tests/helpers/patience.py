"""How long tests wait for what must happen: no test depends on how fast the machine is."""

import time
from collections.abc import Callable

PATIENCE = 900.0
"""Seconds after which something hangs, on a machine however busy."""


def wait_until(happened: Callable[[], object], what: str = "it") -> None:
    """Returns once `happened()` is true; fails where it hangs."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE:g} s"
        time.sleep(0.02)
