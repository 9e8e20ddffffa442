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
def write(path: Path, *, anew: bool = False) -> Iterator[BinaryIO]:
    """Yields a new file that takes the path's place, of mode 0600, when the block ends well.

    The path then holds all that was written, else what it held before. A new folder has mode 0700.

    Args:
        anew: whether nothing may be there before.

    Raises:
        FileExistsError: something is, of whatever kind.

    Edge cases:
        a process that is killed meanwhile leaves a file whose name is the path's with a dot before
        it and more behind, and with `anew` an empty one at the path.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if anew:
        path.touch(mode=0o600, exist_ok=False)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    unfinished = Path(name)
    try:
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        if anew:
            path.unlink()
        raise
    finally:
        unfinished.unlink(missing_ok=True)
    _flush_folder(path.parent)


def add_once(registry: str, entry: str) -> bool:
    """Returns False if the entry was in this user's registry before; it is now, on disk.

    Registries lie in the user's state folder, ``$XDG_STATE_HOME/pea`` or ``~/.local/state/pea``; a
    relative path is ignored. Nothing is ever taken out.
    """
    return _add(registry, entry, entry) is None


def contains(registry: str, entry: str) -> bool:
    """Returns whether the entry is in this user's registry."""
    return claimed(registry, entry) == ""


def claim(registry: str, name: str, value: str) -> str:
    """Returns the value of a name in this user's registry: the first that anybody claimed for it.

    No other name may be the beginning of the name. The value is one word, which the name has from
    now on, on disk, unless it had another before.
    """
    before = _add(registry, name, f"{name} {value}")
    return value if before is None else before


def claimed(registry: str, name: str) -> str | None:
    """Returns the value that a name has in this user's registry, empty if it stands there alone."""
    return _value_in(_path_of(registry).read_text(), name)


def _add(registry: str, name: str, entry: str) -> str | None:
    """The value that a name has; if it had none, `entry` is there now."""
    path = _path_of(registry)
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        before = _value_in(text, name)
        if before is None:
            file.seek(text.rfind("\n") + 1)  # over what an interrupted write has left
            file.truncate()
            file.write(entry + "\n")
            file.flush()
        os.fsync(file.fileno())
    _flush_folder(path.parent)
    return before


def _value_in(text: str, name: str) -> str | None:
    """What the first line of a name says behind it; only lines that were written to their end."""
    for line in text.split("\n")[:-1]:
        if line == name or line.startswith(name + " "):
            return line[len(name) + 1 :]
    return None


def state_folder() -> Path:
    """Returns this user's state folder ``$XDG_STATE_HOME/pea``, which need not be there yet.

    The XDG Base Directory Specification says that relative paths are to be ignored: each working
    folder would have registries of its own, so that what is of use once could be used once in each.
    """
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        try:
            state = Path.home() / ".local" / "state"
        except RuntimeError:  # no HOME, and no user of this number on the system
            state = Path()
    if not state.is_absolute():
        advice = "Set it or HOME, because PEA notes there what was used or opened."
        raise ArgumentError("XDG_STATE_HOME", str(state), "an absolute path", advice)
    return state / "pea"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lets one process of this machine at a time into the block, for one folder.

    A new folder has mode 0700; OSError if it cannot be made or read.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _path_of(registry: str) -> Path:
    path = state_folder() / registry
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError as error:
        raise ArgumentError(
            "XDG_STATE_HOME",
            str(path.parent),
            "a folder that can be written",
            str(error),
            code="file",
        ) from error
    return path


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
