"""What another process has in its memory, freed blocks included."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_PIECE = 1 << 20


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
    """The writable memory that was used, in pieces, each with the beginning of the next."""
    folder, zeros = Path(f"/proc/{pid}"), bytes(_PIECE + overlap)
    try:
        with (folder / "mem").open("rb", buffering=0) as memory:
            for line in (folder / "maps").read_text().splitlines():
                area, rights, *_ = line.split()
                begin, end = (int(address, 16) for address in area.split("-"))
                if not rights.startswith("rw") or line.endswith(("[vvar]", "[vsyscall]")):
                    continue
                for start in range(begin, end, _PIECE):
                    memory.seek(start)
                    try:
                        piece = memory.read(min(_PIECE + overlap, end - start))
                    except OSError:
                        break
                    if piece != zeros[: len(piece)]:
                        yield piece
    except (FileNotFoundError, PermissionError) as error:
        pytest.skip(f"this system does not let a process read another one's memory: {error}")
