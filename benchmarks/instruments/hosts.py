"""The hosts that are measured, by the names that tables have for them."""

from collections.abc import Collection

from extensions.errors import ArgumentError

CRYPTEN, ABY3, SPU = "CrypTen", "ABY3", "SPU ABY3"


def check_host(host: str, hosts: Collection[str]) -> None:
    """Returns only if a host is one of some.

    Raises:
        ArgumentError: it is another one.
    """
    if host not in hosts:
        raise ArgumentError("host", host, f"one of {', '.join(hosts)}")
