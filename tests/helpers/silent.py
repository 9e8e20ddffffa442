"""The programme of a process that never gives a sign of life."""

import signal


def main() -> None:
    """Waits for a signal."""
    while True:
        signal.pause()
