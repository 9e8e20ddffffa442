"""What an owner keeps of an alignment on its disk, so that it goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from extensions import durable
from extensions.alignment.curve import POINT, drawn_key
from extensions.alignment.ids import DTYPE, Points

BLOCK = 10_000
"""Points of a message, and of a step on disk."""
_HEADER, _LISTS, _PART = "alignment.key", "list-*", ".part"


class ListStore:
    """A folder with a key and lists of points by name, each begun or complete.

    Args:
        folder: for this alignment alone.
        subject: what the alignment is of; what is there of another one does not count.
    """

    def __init__(self, folder: Path, subject: str) -> None:
        self._folder, self._header = folder, dict[str, Any]()
        self._subject = subject
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            header = json.loads((folder / _HEADER).read_bytes())
            if header["subject"] == subject:
                self._header = header

    @property
    def session(self) -> str:
        """Name of the alignment that is kept, the same at all owners; empty without one."""
        return str(self._header.get("session", ""))

    @property
    def keys(self) -> list[bytes]:
        """The key of this alignment, and the one that takes it off."""
        return [*map(bytes.fromhex, self._header["keys"])]

    def begin(self, session: str) -> None:
        """Keeps this alignment from now on; if it is another one, under a new key."""
        if session != self.session:
            self.remove()
            keys = [key.hex() for key in drawn_key()]
            self._header = {"subject": self._subject, "session": session, "keys": keys}
            with durable.write(self._folder / _HEADER) as file:
                file.write(json.dumps(self._header).encode())

    def remove(self) -> None:
        """Nothing is kept any more."""
        for path in [*self._folder.glob(_LISTS), self._folder / _HEADER]:
            path.unlink(missing_ok=True)

    def counts(self) -> dict[str, int]:
        """Returns how many points there are of each list; of one that is begun, in whole blocks."""
        sizes = {path: path.stat().st_size // POINT for path in self._folder.glob(_LISTS)}
        return {
            path.stem: size // BLOCK * BLOCK if path.suffix == _PART else size
            for path, size in sizes.items()
        }

    def is_complete(self, name: str) -> bool:
        """Whether all of a list is there, in its last order."""
        return (self._folder / name).exists()

    def append(self, name: str, at: int, points: bytes) -> None:
        """Keeps the points of a list from `at` on."""
        with open(self._folder / f"{name}{_PART}", "ab") as file:
            file.truncate(at * POINT)
            file.write(points)
            file.flush()
            os.fsync(file.fileno())

    def begun(self, name: str) -> bytes:
        """Returns what there is of a list that is not complete."""
        path = self._folder / f"{name}{_PART}"
        return path.read_bytes() if path.exists() else b""

    def complete(self, name: str, points: bytes) -> None:
        """A list is complete, and has these points."""
        with durable.write(self._folder / name) as file:
            file.write(points)
        (self._folder / f"{name}{_PART}").unlink(missing_ok=True)

    def whole(self, name: str) -> Points:
        """Returns a complete list."""
        return np.fromfile(self._folder / name, DTYPE)

    def blocks(self, name: str, first: int = 0) -> Iterator[bytes]:
        """Yields the blocks of a complete list, from a point on."""
        with open(self._folder / name, "rb") as file:
            file.seek(first * POINT)
            yield from iter(lambda: file.read(BLOCK * POINT), b"")
