"""A network namespace of this process's own, and the end of all that runs in it."""

import ctypes
import os
import signal
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from extensions.errors import EmulationError

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_NETWORK = "a network namespace"


def enter() -> None:
    """Moves this process, which must have one thread, into a new network namespace.

    Without the right to do so a user namespace is made around it, in which the user stays the same.

    Raises:
        EmulationError: this is not Linux, or namespaces are not allowed.
    """
    if sys.platform != "linux":
        raise EmulationError(_NETWORK, f"{sys.platform} has none", "Use Linux.")
    user, group = os.getuid(), os.getgid()
    try:
        try:
            _unshare(_CLONE_NEWNET)
        except PermissionError:
            _unshare(_CLONE_NEWNET | _CLONE_NEWUSER)
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        raise EmulationError(
            _NETWORK,
            error,
            "Run as root, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container, --privileged.",
        ) from error


def _unshare(flags: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def identity(pid: int | str = "self") -> int:
    """Returns the number of a process's network namespace.

    Raises:
        OSError: there is no such process, or it belongs to somebody else.
    """
    return os.stat(f"/proc/{pid}/ns/net").st_ino


def end_others(spared: Collection[int]) -> None:
    """Kills all processes of this namespace but this one and those spared.

    The caller has entered a namespace of its own.
    """
    here, spared = identity(), {os.getpid(), *spared}
    while True:
        found = False
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                pid = int(entry.name) if entry.name.isdigit() else os.getpid()
                if pid not in spared and identity(pid) == here:
                    os.kill(pid, signal.SIGKILL)
                    found = True
        if not found:
            return
