"""Steps that take memory and free it, counted in pages that the kernel had to give."""

import resource
import sys
from typing import Any

import numpy as np

from extensions.machine import keep_memory

BLOCKS, BLOCK = 4, 20 << 20
STEPS = 8
FEW = 1000
"""Pages that a process may take beside its steps, which without what is kept take 16,000."""


def step() -> None:
    """Blocks are taken, written to, and freed, the last one first."""
    blocks = [np.ones(BLOCK, np.uint8) for _ in range(BLOCKS)]
    while blocks:
        blocks.pop()


def pages_of_steps(*_: Any) -> int:
    """Returns the pages that the steps after the first one took from the kernel."""
    step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(STEPS):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


if __name__ == "__main__":
    if sys.argv[1:] == ["keep"]:
        keep_memory()
    print(pages_of_steps())
