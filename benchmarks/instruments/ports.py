"""Addresses of this machine that nobody listens at."""

import socket
from contextlib import ExitStack


def free_addresses(count: int) -> list[str]:
    """Returns that many addresses of the loopback interface."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
