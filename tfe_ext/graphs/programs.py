"""What is computed on the servers: steps, whole or in pieces, and sums block by block."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Self

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.layers.passes import Parameters
from extensions.protocols.dpsgd import Sums, added, paired, parts_of
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.host import Batch, pieces_of
from extensions.ring.interface import NoiseSource
from extensions.rules import Whole
from tfe_ext.costs.cost import Cost
from tfe_ext.graphs.batches import OwnersRecords, Records
from tfe_ext.graphs.program import InBlocks, Program, Turns
from tfe_ext.graphs.standing import Standing, standing_on
from tfe_ext.graphs.tables import padded, rows_from
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.roles import roles
from tfe_ext.ring.shares import Share
from tfe_ext.ring.variables import SumVariable
from tfe_ext.streams.devices import on_each

Clipped = Callable[[ABY3Ring, Parameters, Batch], Sums]
"""Returns the sums of clipped gradients of some rows, given a ring and a model."""


@dataclass(frozen=True)
class Sampling:
    """Which rows of each owner a step has, and in how many pieces they are computed; public.

    Records are drawn at the rate. Each piece has some rows of every owner; what its sample lacks
    are rows of padding.
    """

    records: Records
    rows: list[int]
    rate: float
    source: NoiseSource
    pieces: int = 1

    @classmethod
    def of(
        cls, records: Records, rows: list[int], rate: float, source: NoiseSource, most: int | None
    ) -> Self:
        """Returns the sampling of a step in pieces of about `most` rows; None: in one."""
        if most is not None:
            Whole(1).check("physical_rows", most)
            if not isinstance(records, OwnersRecords):
                allowed = "None, because these records are already shared as one batch"
                raise ArgumentError("physical_rows", most, allowed)
        return cls(records, rows, rate, source, pieces_of(rows, most))

    @property
    def rows_of_piece(self) -> list[int]:
        """Number of rows of each owner in a piece."""
        return [-(-n // self.pieces) for n in self.rows]

    @property
    def all_rows(self) -> int:
        """Number of rows of a step, padding included."""
        return self.pieces * sum(self.rows_of_piece)

    def program(
        self,
        ring: ABY3Ring,
        plan: StepPlan,
        model: Callable[[], Parameters],
        clipped: Clipped,
        finish: Callable[[Sums], None],
    ) -> "Program | InPieces":
        """Returns what makes steps: one graph, or those of `InPieces`.

        `finish` makes a step by the sums of all rows.
        """

        def sums_of(batch: Batch) -> Sums:
            return in_roles(ring, plan, model(), batch, clipped)

        standing, drawn = None, (self.rows, self.rate, self.source)
        if self.rate == 1.0 and isinstance(self.records, OwnersRecords):
            standing = standing_on(self.records, self.rows_of_piece, self.pieces)
        if self.pieces > 1:
            return InPieces(standing or _Samples(self), ring, plan, sums_of, finish)
        if standing is not None:
            return Program(lambda: finish(sums_of(standing.everything())), standing)
        return Program(lambda: finish(sums_of(self.records.sample(*drawn))))


def in_roles(
    ring: ABY3Ring, plan: StepPlan, model: Parameters, batch: Batch, clipped: Clipped
) -> Sums:
    """Returns the sums of rows, of which servers in each of their roles compute some; local."""
    rows, found = batch.x.shape[0], []
    width = sum(layer.positions * layer.out_features for layer in plan.layers)
    for own, by, part in roles(ring, rows, rows * width):
        turned = [(_turned(weight, by), _turned(bias, by)) for weight, bias in model]
        columns = (_turned(column, by) for column in batch.part(part))
        sums = clipped(own, turned, Batch(*columns))
        found.append([(_turned(weight, -by), _turned(bias, -by)) for weight, bias in sums])
    return reduce(partial(added, plan=plan), found)


def _turned(share: Share | None, by: int) -> Share | None:
    return None if share is None else share.turned(by)


class InPieces:
    """Makes steps by three graphs: owners draw, a piece is added up, and a step is made.

    Servers keep their summands of the sums, each computed from what it has of shares. Noise of the
    sums is drawn once, before anything is made of them. Each piece takes the rounds of both passes,
    and those of the clipped sums.

    Args:
        rows: which come in pieces.

    Attributes:
        standing: as `Program` has it.
    """

    def __init__(
        self,
        rows: "Standing | _Samples",
        ring: ABY3Ring,
        plan: StepPlan,
        clipped: Callable[[Batch], Sums],
        finish: Callable[[Sums], None],
    ) -> None:
        self._rows, self._plan, self._clipped, self._finish = rows, plan, clipped, finish
        shapes: list[tuple[int, ...]] = []
        for layer in plan.layers:
            shapes.append((layer.out_features, layer.in_features))
            shapes += [(layer.out_features,)] * layer.has_bias
        self._sums = [SumVariable(ring.servers.devices, shape) for shape in shapes]
        self.standing = rows if isinstance(rows, Standing) else None
        self._begin, self._add, self._end = (
            Program(act, self.standing) for act in (self._begun, self._added, self._ended)
        )

    def __call__(self) -> None:
        """Makes a step."""
        self._begin()
        for _ in range(self._rows.pieces):
            self._add()
        self._end()

    @property
    def cost(self) -> Cost:
        """What a step costs, read from the graphs."""
        return self._begin.cost.then(self._add.cost, self._rows.pieces).then(self._end.cost)

    @property
    def memory(self) -> int:
        """Bytes that a server's process takes for it, as `Cost` says."""
        return max(each.memory for each in (self._begin, self._add, self._end))

    def _begun(self) -> None:
        self._rows.begin()
        for total in self._sums:
            total.clear()

    def _added(self) -> None:
        clipped = self._clipped(self._rows.next())
        for total, part in zip(self._sums, parts_of(clipped), strict=True):
            total.add(part)

    def _ended(self) -> None:
        self._finish(paired([total.read() for total in self._sums], self._plan))


class _Samples:
    """A fresh sample of every owner's records, which it keeps in the clear until the next one.

    It lies in variables on the owner's own device: so many pieces of so many rows.
    """

    def __init__(self, of: Sampling) -> None:
        assert isinstance(of.records, OwnersRecords)
        self.pieces, self._of, self._records = of.pieces, of, of.records
        tables = [*of.records.tables.values()]
        self._devices = [table.device for table in tables]
        self._turns = Turns(self._devices)
        self._columns = [
            on_each([table.device] * 4, self._variable, self._shapes(table.widths, rows))
            for table, rows in zip(tables, of.rows_of_piece, strict=True)
        ]

    def _shapes(self, widths: Sequence[int], rows: int) -> list[list[int]]:
        count = self.pieces * rows
        return [*([count, width] for width in widths), [count], [count]]

    @staticmethod
    def _variable(shape: Sequence[int]) -> tf.Variable:
        return tf.Variable(tf.zeros(shape, tf.int64), trainable=False, name="sample")

    def begin(self) -> None:
        """Draws: features, labels, squared norms and padding take the place of those before."""
        drawn = self._records.draw(self._of.rows, self._of.rate, self._of.source)
        for device, columns, own in zip(self._devices, self._columns, drawn, strict=True):
            with tf.device(device):
                for column, part in zip(columns, padded(own, columns[0].shape[0]), strict=True):
                    column.assign(part)
        self._turns.clear()

    def next(self) -> Batch:
        """Returns the next piece, shared."""
        turns, pieces = self._turns.take(), []
        for device, columns, rows in zip(
            self._devices, self._columns, self._of.rows_of_piece, strict=True
        ):
            with tf.device(device):
                first = turns[device] * rows
                pieces.append([rows_from(each.read_value(), first, rows) for each in columns])
        return self._records.shared(pieces)


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
    owner's. What `finish` returns of the sum is a graph of its own. Servers keep their summands of
    the sum, which nobody else sees. Each block takes the rounds of `count`, and so do the records
    that equal blocks leave over.
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
        self._sum = SumVariable(devices, (size,))
        owners = [table.device for table in records.tables.values()]
        self._blocks = InBlocks(
            owners,
            records.sizes,
            blocks,
            lambda turn, *block: self._sum.add(count(records.part(turn, *block))),
        )
        self._end = Program(lambda: finish(self._sum.read()))

    def __call__(self) -> Any:
        """Adds up all records as they are now."""
        self._sum.clear()
        self._blocks()
        return self._end()

    @property
    def cost(self) -> Cost:
        """What a call costs, read from the graphs."""
        return self._blocks.cost.then(self._end.cost)
