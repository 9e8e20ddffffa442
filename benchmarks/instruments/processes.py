"""Times and memory of processes; Linux only."""

import os
from contextlib import suppress
from pathlib import Path

SESSION, TIMES = 3, slice(11, 15)
"""Fields of a process in /proc, after its name: its times are its own and its ended children's."""


def peak_memory(pid: int) -> int:
    """Returns the largest resident set of a process so far, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def of_session(leader: int) -> tuple[float, int]:
    """Returns processor seconds, and the sum of peak memories, of the processes of a session."""
    ticks = memory = 0
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it has just ended; its time is its parent's
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[SESSION]) == leader:
                ticks += sum(map(int, fields[TIMES]))
                memory += peak_memory(int(path.name))
    return ticks / os.sysconf("SC_CLK_TCK"), memory
