"""Much work is divided among the servers: each third of its rows is computed in other roles.

Server 2 deals to the two others, so that nearly all bytes go from it to server 1. Where another
server deals for each third, every link between two of them carries as much as any other.
"""

import math
from collections.abc import Callable, Iterator

from extensions.protocols.host import part_of
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.placed import concatenate
from tfe_ext.ring.shares import Share

LEAST = 1 << 15
"""Elements from which on it pays that a graph has thrice as many operations."""


def roles(ring: ABY3Ring, rows: int, work: int) -> Iterator[tuple[ABY3Ring, int, slice]]:
    """Yields which servers compute which rows: their ring, and by how much they are turned.

    Args:
        work: elements that are computed with, of all rows; few are not divided.
    """
    count = ring.parties if work >= LEAST and rows >= ring.parties else 1
    for by in range(count):
        yield ring.turned(by), by, part_of(rows, by, count)


def by_rows(ring: ABY3Ring, x: Share, compute: Callable[[ABY3Ring, Share], Share]) -> Share:
    """Returns what is computed of each row of x, replicated where there is much work."""
    rows, *_ = x.shape or (1,)
    each = [*roles(ring, rows, math.prod(x.shape))]
    if len(each) == 1:
        return compute(ring, x)
    parts = [own.replicate([compute(own, x[rows].turned(by))]) for own, by, rows in each]
    return concatenate([part.turned(-by) for (part,), (_, by, _) in zip(parts, each, strict=True)])
