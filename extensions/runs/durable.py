"""What is on disk once a call returns, whatever happens to the machine afterwards."""

import fcntl
import os
from pathlib import Path

from extensions.errors import ArgumentError


def write_durably(path: Path, content: bytes) -> Path:
    """The file holds the content, with mode 0600; whenever this is interrupted, all of it or none.

    Written beside it, flushed to the disk, and renamed. A new folder has mode 0700.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_name(f".{path.name}.new")
    descriptor = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    _flush_folder(path.parent)
    return path


def enter(kind: str, name: str) -> bool:
    """The name is on this user's list of that kind, on disk; False if it was there before.

    Lists lie in the user's state folder, ``$XDG_STATE_HOME/pea``. Nothing is ever taken off them.

    Raises:
        ArgumentError: the folder cannot be written.
    """
    path = _list(kind)
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if name in file.read().splitlines():
            return False
        file.write(name + "\n")
        file.flush()
        os.fsync(file.fileno())
    _flush_folder(path.parent)
    return True


def is_entered(kind: str, name: str) -> bool:
    """Whether the name is on the list."""
    return name in _list(kind).read_text().splitlines()


def _list(kind: str) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "pea" / kind
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError as error:
        raise ArgumentError(
            "XDG_STATE_HOME", str(state), "a folder that can be written", str(error)
        ) from error
    return path


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
