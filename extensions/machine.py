"""What of this machine a process may use."""

import os
import sys
from pathlib import Path


def cores() -> int:
    """Returns the number of cores on which this process may run."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def cores_of_each(processes: int) -> int:
    """Returns the number of cores that each of so many processes may have for itself, or 1."""
    return max(1, cores() // processes)


def cache_home() -> Path:
    """Returns this user's cache folder of the project, which may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pea"
