"""What of this machine a process may use."""

import ctypes
import os
import sys
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Of malloc.h."""
_NEVER = -1
_BLOCK = 32 << 20
"""Bytes of the largest block that glibc can be told to keep."""


def cores() -> int:
    """Returns the number of cores on which this process may run."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def cores_of_each(processes: int) -> int:
    """Returns the number of cores that each of so many processes may have for itself, or 1."""
    return max(1, cores() // processes)


def keep_memory() -> None:
    """What this process frees it keeps for what it allocates next; without glibc nothing changes.

    For a process that trains: each step takes and frees the same again, and pages that come back
    from the kernel are cleared and mapped one by one, which took a sixth of a step's time. The
    most memory that it takes stays the same within a tenth, and stays its own until it ends.
    """
    if sys.platform != "linux":
        return
    if set_option := getattr(ctypes.CDLL(None), "mallopt", None):
        set_option(_MMAP_THRESHOLD, _BLOCK)
        set_option(_TRIM_THRESHOLD, _NEVER)


def cache_home() -> Path:
    """Returns this user's cache folder of the project, which may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pea"
