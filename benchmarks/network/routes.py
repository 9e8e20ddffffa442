"""Routes that make all of 127.0.0.0/8 cross one link, inside a network namespace.

The kernel sends packets between local addresses to `lo` because its first routing rule looks into
the table `local`. In the namespace another rule comes first, for packets that start here (they
have the input interface `lo`): its table sends 127.0.0.0/8 out through a TUN device. What is
written back to the device has another input interface, finds the table `local`, and is delivered.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from extensions.errors import EmulationError, MissingExtraError

DEVICE = "link0"
MTU = 1500
LONGEST_QUEUE = 100_000
"""Packets; so many are never in flight, hence none is lost."""

LOOPBACK = 1
_TABLE, _LOCAL = 100, 255
_SETTINGS = {
    # ::1 cannot leave the loopback interface, so that localhost must mean 127.0.0.1.
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
    "ipv4/conf/all/rp_filter": "0",
    f"ipv4/conf/{DEVICE}/rp_filter": "0",
    f"ipv4/conf/{DEVICE}/accept_local": "1",
    f"ipv4/conf/{DEVICE}/route_localnet": "1",
}
_TCP = {
    "ipv4/tcp_congestion_control": "cubic",
    # What calibration learnt of the way to 127.0.0.1 would pass to the command's connections.
    "ipv4/tcp_no_metrics_save": "1",
}
_ADVICE = "In a container, use --privileged."


def loopback_up() -> None:
    """Brings up 127.0.0.1 in the namespace, with the usual TCP and packets.

    Raises:
        MissingExtraError: pyroute2 is not installed.
        EmulationError: the kernel refuses.
    """
    up = {"index": LOOPBACK, "state": "up", "mtu": MTU}
    _configure("the loopback interface", [("link", "set", up)])
    for name, value in _TCP.items():
        with suppress(OSError):
            _write(name, value)


def route_through_device() -> None:
    """Routes all packets to 127.0.0.0/8 out through the device, and lets them come back.

    Raises:
        EmulationError: the kernel refuses.
    """
    try:
        for name, value in _SETTINGS.items():
            _write(name, value)
    except OSError as error:
        raise EmulationError("settings in /proc/sys/net", error, _ADVICE) from error
    with _netlink() as kernel:
        (device,) = kernel.link_lookup(ifname=DEVICE)
    up = {"index": device, "state": "up", "mtu": MTU, "txqlen": LONGEST_QUEUE}
    loop = {"dst": "127.0.0.0/8", "oif": device, "prefsrc": "127.0.0.1", "scope": "link"}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("link", "set", up),
        ("route", "add", {**loop, "table": _TABLE}),
        ("rule", "add", {"priority": 1, "table": _LOCAL}),
        ("rule", "del", {"priority": 0, "table": _LOCAL}),
        ("rule", "add", {"priority": 0, "iifname": "lo", "table": _TABLE}),
    ]
    _configure("routes", requests)


def _write(name: str, value: str) -> None:
    path = Path("/proc/sys/net", name)
    if path.exists() or not name.startswith("ipv6"):
        path.write_text(value)


def _netlink() -> Any:
    try:
        from pyroute2 import IPRoute
    except ImportError as error:
        raise MissingExtraError("pyroute2", "benchmarks") from error
    return IPRoute()


def _configure(what: str, requests: list[tuple[str, str, dict[str, Any]]]) -> None:
    with _netlink() as kernel:
        from pyroute2.netlink.exceptions import NetlinkError

        try:
            for subject, verb, arguments in requests:
                getattr(kernel, subject)(verb, **arguments)
        except NetlinkError as error:
            raise EmulationError(what, error, _ADVICE) from error
