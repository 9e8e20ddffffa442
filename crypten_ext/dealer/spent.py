"""Which prepared files this user has used, so that a copy of one is refused like the file."""

import fcntl
import os
from pathlib import Path

from extensions.errors import ArgumentError


def spend(name: str) -> bool:
    """The name is on the list, and on disk, when this returns; False if it was there before."""
    with _list().open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if name in file.read().splitlines():
            return False
        file.write(name + "\n")
        file.flush()
        os.fsync(file.fileno())
        return True


def is_spent(name: str) -> bool:
    """Whether the name is on the list."""
    return name in _list().read_text().splitlines()


def _list() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "pea" / "used-material"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError as error:
        raise ArgumentError(
            "XDG_STATE_HOME", str(state), "a folder that can be written", str(error)
        ) from error
    return path
