"""What another process has in its memory, freed blocks included."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np
import pytest

_PIECE, _PAGE, _ENTRY = 1 << 20, os.sysconf("SC_PAGE_SIZE"), 8
_EXCLUSIVE, _FILE, _SWAPPED, _PRESENT = (np.uint64(1 << bit) for bit in (56, 61, 62, 63))
"""Bits of an entry of /proc/PID/pagemap, one for each page."""


def found_in(pid: int, heads: Sequence[bytes], length: int) -> set[bytes]:
    """Returns what stands in a process's memory where one of the heads begins.

    Args:
        pid: of the process.
        heads: byte strings to look for.
        length: number of bytes returned from where a head begins, at least that of every head.
    """
    sought = [_Head(head) for head in heads]  # one by one is faster than at once
    return {
        piece[start : start + length]
        for piece in _writable(pid, length)
        for head in sought
        for start in head.starts(piece)
    }


class _Head:
    """What is looked for by its core, for zeros stand everywhere."""

    def __init__(self, head: bytes) -> None:
        core = head.strip(b"\0")
        self._head, self._before = head, head.index(core)
        self._core = re.compile(re.escape(core))

    def starts(self, piece: bytes) -> Iterator[int]:
        """Returns where it stands."""
        for match in self._core.finditer(piece):
            start = match.start() - self._before
            if start >= 0 and piece.startswith(self._head, start):
                yield start


def private_memory(pid: int) -> int:
    """Returns the bytes that a process has for itself, files that it maps aside."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


def _writable(pid: int, overlap: int) -> Iterator[bytes]:
    """The writable memory that is the process's own, in pieces, each with the next one's beginning.

    A page that a copy of a process still shares with it was not written since it was copied.
    """
    folder = Path(f"/proc/{pid}")
    try:
        with (
            (folder / "mem").open("rb", buffering=0) as memory,
            (folder / "pagemap").open("rb", buffering=0) as pages,
        ):
            for line in (folder / "maps").read_text().splitlines():
                area, rights, *_ = line.split()
                begin, end = (int(address, 16) for address in area.split("-"))
                if not rights.startswith("rw") or line.endswith(("[vvar]", "[vsyscall]")):
                    continue
                for start, stop in _own(pages, begin, end):
                    memory.seek(start)
                    with suppress(OSError):  # unmapped meanwhile
                        yield memory.read(min(stop + overlap, end) - start)
    except (FileNotFoundError, PermissionError) as error:
        pytest.skip(f"this system does not let a process read another one's memory: {error}")


def _own(pages: IO[bytes], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The runs of pages in use but for those that copies share, of at most a piece each."""
    pages.seek(begin // _PAGE * _ENTRY)
    entries = np.frombuffer(pages.read((end - begin) // _PAGE * _ENTRY), dtype=np.uint64)
    copied = (entries & (_PRESENT | _FILE | _EXCLUSIVE)) == _PRESENT
    own = np.append((entries & (_PRESENT | _SWAPPED) != 0) & ~copied, False)
    (turns,) = np.nonzero(np.diff(own, prepend=False))
    for first, last in (begin + turns.reshape(-1, 2) * _PAGE).tolist():
        for start in range(first, last, _PIECE):
            yield start, min(start + _PIECE, last)
