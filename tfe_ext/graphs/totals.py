"""What is said of all records of their owners, added up block by block."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from extensions.protocols.host import Batch
from tfe_ext.costs.cost import Cost
from tfe_ext.graphs.batches import OwnersRecords, Records
from tfe_ext.graphs.programs import Program
from tfe_ext.ring.shares import Share
from tfe_ext.ring.variables import ScalarVariables, SumVariable


def total_of(
    devices: Sequence[str],
    records: Records,
    blocks: int,
    size: int,
    count: Callable[[Batch], Share],
    finish: Callable[[Share], Any],
) -> "Program | Total":
    """Returns what sums a function of all records up: one graph for one block, else `Total`."""
    if blocks == 1 or not isinstance(records, OwnersRecords):
        return Program(lambda: finish(count(records.everything())))
    return Total(devices, records, blocks, size, count, finish)


class Total:
    """A function of records, summed over all of them: one graph for blocks, one for the rest.

    `count` returns (size,) of some unpadded records; each of the equal blocks has some of every
    owner's. What `finish` returns of the sum is a graph of its own.

    Guarantees:
        Servers keep their summands of the sum, which nobody else sees.

    Cost:
        Each block takes the rounds of `count`, and so do the records that equal blocks leave over.
    """

    def __init__(
        self,
        devices: Sequence[str],
        records: OwnersRecords,
        blocks: int,
        size: int,
        count: Callable[[Batch], Share],
        finish: Callable[[Share], Any],
    ) -> None:
        self._records, self._count = records, count
        self._sum = SumVariable(devices, (size,))
        owners = [table.device for table in records.tables.values()]
        self._index = ScalarVariables(owners, [0])
        rows = records.sizes
        parts = [
            ([0] * len(rows), [n // blocks for n in rows], blocks),
            ([n - n % blocks for n in rows], [n % blocks for n in rows], 1),
        ]
        self._blocks = [
            (Program(partial(self._add, starts, sizes)), times)
            for starts, sizes, times in parts
            if any(sizes)
        ]
        self._end = Program(lambda: finish(self._sum.read()))

    def __call__(self) -> Any:
        """Adds up all records as they are now."""
        self._sum.clear()
        for program, times in self._blocks:
            for i in range(times):
                self._index.assign([i])
                program()
        return self._end()

    @property
    def cost(self) -> Cost:
        """What a call costs, read from the graphs."""
        (first, times), *rest = self._blocks
        found = first.cost.then(first.cost, times - 1)
        for program, times in [*rest, (self._end, 1)]:
            found = found.then(program.cost, times)
        return found

    def _add(self, starts: Sequence[int], sizes: Sequence[int]) -> None:
        (index,) = self._index.read()
        self._sum.add(self._count(self._records.part(index.parts, starts, sizes)))
