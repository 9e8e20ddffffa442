"""The hosts that are measured, by the names that tables have for them."""

from collections.abc import Collection

from extensions.errors import ArgumentError
from extensions.runs.options import Transport

CRYPTEN, ABY3, SPU = "CrypTen", "ABY3", "SPU ABY3"
GLOO = "CrypTen over gloo"
"""As CrypTen, whose parties speak TLS 1.3 otherwise, but in the clear."""
TRANSPORTS: dict[str, Transport] = {CRYPTEN: "tls", GLOO: "gloo"}


def check_host(host: str, hosts: Collection[str]) -> None:
    """Returns only if a host is one of some.

    Raises:
        ArgumentError: it is another one.
    """
    if host not in hosts:
        raise ArgumentError("host", host, f"one of {', '.join(hosts)}")
