"""What is on disk once a call returns, whatever happens to the machine afterwards."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from extensions.errors import ArgumentError


@contextmanager
def write(path: Path) -> Iterator[BinaryIO]:
    """Yields a new file that takes the path's place, of mode 0600, when the block ends well.

    The path then holds all that was written, else what it held before. A new folder has mode 0700.

    Edge cases:
        a process that is killed meanwhile leaves a file whose name is the path's with a dot before
        it and more behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    unfinished = Path(name)
    try:
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    _flush_folder(path.parent)


def add_once(registry: str, entry: str) -> bool:
    """Returns False if the entry was in this user's registry before; it is now, on disk.

    Registries lie in the user's state folder, ``$XDG_STATE_HOME/pea``. Nothing is ever taken out.

    Raises:
        ArgumentError: the folder cannot be written.
    """
    path = _path_of(registry)
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if entry in file.read().splitlines():
            return False
        file.write(entry + "\n")
        file.flush()
        os.fsync(file.fileno())
    _flush_folder(path.parent)
    return True


def contains(registry: str, entry: str) -> bool:
    """Returns whether the entry is in this user's registry.

    Raises:
        ArgumentError: the folder cannot be written, so that `add_once` would fail.
    """
    return entry in _path_of(registry).read_text().splitlines()


def _path_of(registry: str) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "pea" / registry
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
