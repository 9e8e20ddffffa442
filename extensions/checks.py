"""Checks of numbers and addresses that several settings have in common."""

import ipaddress
import os
import re
import socket
import threading
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError

_PRIVATE_KEY = b"PRIVATE KEY-----"
_HEAD = 1 << 16
"""Bytes of a file in which a private key is looked for."""
LABELS = 4096
"""Labels given as numbers are below it where nothing says how many classes there are."""


def is_whole(value: object, allowed: range) -> bool:
    """Whether the value is a whole number of those, and no float that equals one."""
    return isinstance(value, Integral) and value in allowed


def check_label(name: str, value: float, classes: int = LABELS) -> None:
    """Raises ArgumentError, without the label, unless it is below the number of classes."""
    if not value < classes:
        advice = "Number the classes from 0 on, and drop records whose class is unknown."
        raise ArgumentError(name, "one beyond all classes", f"below {classes}", advice)


def check_seconds(name: str, value: float) -> None:
    """Raises ArgumentError unless the value is a positive number of seconds, finite or not."""
    if not value > 0:
        raise ArgumentError(name, value, "a positive number of seconds")


def waitable(seconds: float) -> float:
    """Returns the seconds, or as many as anything here can wait if that is less: 292 years."""
    return min(seconds, threading.TIMEOUT_MAX)


def check_address(name: str, text: str) -> tuple[str, int]:
    """Returns host and port of HOST:PORT, the host of an IPv6 address without its brackets."""
    host, _, port = text.rpartition(":")
    in_brackets = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if in_brackets else host
    is_port = re.fullmatch("[0-9]{1,5}", port) is not None and 0 < int(port) < 1 << 16
    found = literal(host)
    is_host = found is not None and found.version == 6 if in_brackets else _is_name(host)
    if not is_port or not is_host:
        allowed = "HOST:PORT with a port in 1..65535, and an IPv6 address in brackets"
        raise ArgumentError(name, text, allowed)
    return host, int(port)


def literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns the address that a host is given by, None if it is given by its name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_unspecified(host: str) -> bool:
    """Whether a host of `check_address` is 0.0.0.0 or ::, in any notation, and so no place."""
    found = literal(host)
    if isinstance(found, ipaddress.IPv6Address):
        return int(found.ipv4_mapped or found) == 0
    try:
        return socket.inet_aton(host.encode("idna").decode()) == bytes(4)
    except OSError:
        return False


def _is_name(host: str) -> bool:
    """Whether it can be a host's name, or is its IPv4 address."""
    try:
        plain = host.encode("idna").decode()
    except UnicodeError:  # a label is empty or too long
        return False
    return re.fullmatch(r"[A-Za-z0-9_.-]+", plain) is not None


def check_together(name: str, value: object, other: str, others: object) -> None:
    """Checks that both of two arguments are given, or neither is."""
    if (value is None) != (others is None):
        given, missing = (other, name) if value is None else (name, other)
        shown = str(others if value is None else value)
        raise ArgumentError(given, shown, f"{{{missing}}}", code="needs")


def check_left_out(rule: str, **given: Any) -> None:
    """Raises ArgumentError if one of these is given, which are of no use where the rule says."""
    for name, value in given.items():
        if value is not None and value is not False:
            shown = value if isinstance(value, int | float | str | tuple | list) else str(value)
            raise ArgumentError(name, shown, rule, code="conflict")


def check_writable(name: str, path: Path, *, folder: bool = False) -> None:
    """Checks that a file, or a folder, can be written there; nothing is written now.

    Folders that are not there yet are made when it is.
    """
    if path.exists():
        if path.is_dir() != folder or not os.access(path, os.W_OK):
            raise ArgumentError(name, str(path), f"a {'folder' if folder else 'file'} to write")
        return
    above = next(each for each in path.absolute().parents if os.path.lexists(each))
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ArgumentError(name, str(path), "in a folder that can be written", f"Not: {above}.")


def is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which may be still to be written."""
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def is_private_key(path: Path) -> bool:
    """Whether a file begins as one with a private key does."""
    return _PRIVATE_KEY in beginning(path)


def beginning(path: Path) -> bytes:
    """Returns how a file begins; nothing of what is none, or cannot be read."""
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(_HEAD)
    return b""
