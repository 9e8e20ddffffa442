"""A step whose rows are computed in pieces, one after the other, each by one and the same graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.protocols.dpsgd import Sums, paired, parts_of
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.host import Batch, pieces_of
from extensions.ring.interface import NoiseSource
from extensions.rules import Whole
from tfe_ext.costs.cost import Cost
from tfe_ext.graphs.batches import OwnersRecords, Records
from tfe_ext.graphs.programs import Program
from tfe_ext.graphs.tables import padded, rows_from
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.variables import SumVariable


@dataclass(frozen=True)
class Pieces:
    """In how many pieces which rows are computed; public.

    Attributes:
        records: of the owners.
        count: number of pieces, 2 at least.
        rows: of each owner in a piece; what its sample lacks are rows of padding.
    """

    records: OwnersRecords
    count: int
    rows: tuple[int, ...]

    @classmethod
    def of(cls, records: Records, rows: Sequence[int], most: int | None) -> Self | None:
        """Returns the pieces of a step: each has some rows of every owner. None: it is one.

        Args:
            records: of the step.
            rows: of each owner's sample.
            most: about how many rows a piece may have; None for all.

        Raises:
            ArgumentError: fewer rows than one, or records that are shared already.
        """
        if most is None:
            return None
        Whole(1).check("physical_rows", most)
        if not isinstance(records, OwnersRecords):
            allowed = "None for records that are shared already, as one batch"
            raise ArgumentError("physical_rows", most, allowed)
        count = pieces_of(rows, most)
        return cls(records, count, tuple(-(-n // count) for n in rows)) if count > 1 else None


@dataclass(frozen=True)
class Sampling:
    """Which rows a step has.

    Attributes:
        records: of which they are.
        rows: of each owner.
        rate: with which each record is drawn.
        source: of what is drawn.
        pieces: in which they are computed, or None.
    """

    records: Records
    rows: list[int]
    rate: float
    source: NoiseSource
    pieces: Pieces | None

    @property
    def all_rows(self) -> int:
        """Number of rows of a step, padding included."""
        if self.pieces is None:
            return sum(self.rows)
        return self.pieces.count * sum(self.pieces.rows)

    def program(
        self,
        ring: ABY3Ring,
        plan: StepPlan,
        clipped: Callable[[Batch], Sums],
        finish: Callable[[Sums], None],
    ) -> "Program | InPieces":
        """Returns what makes steps: one graph, or those of `InPieces`.

        Args:
            ring: that of the protocol.
            plan: of the step.
            clipped: returns the sums of rows.
            finish: makes a step by the sums of all.
        """
        drawn = self.rows, self.rate, self.source
        if self.pieces is None:
            return Program(lambda: finish(clipped(self.records.sample(*drawn))))
        records = self.pieces.records
        return InPieces(self.pieces, ring, plan, lambda: records.draw(*drawn), clipped, finish)


class InPieces:
    """Makes steps by three graphs: owners draw, a piece is added up, and a step is made.

    Args:
        pieces: of a step.
        ring: that of the protocol.
        plan: of the step.
        draw: returns each owner's sample, on its device.
        clipped: returns the sums of a piece's rows.
        finish: makes the step by the sums of all.

    Guarantees:
        Owners draw one sample, and keep it in the clear on their own devices until the next step.
        So do servers with their summands of the sums, each computed from what it has of shares. The
        sums have noise, which is drawn once, before anything is made of them.

    Cost:
        Each piece takes the rounds of both passes, and those of the clipped sums.
    """

    def __init__(
        self,
        pieces: Pieces,
        ring: ABY3Ring,
        plan: StepPlan,
        draw: Callable[[], Sequence[Sequence[tf.Tensor]]],
        clipped: Callable[[Batch], Sums],
        finish: Callable[[Sums], None],
    ) -> None:
        self._pieces, self._plan = pieces, plan
        self._draw, self._clipped, self._finish = draw, clipped, finish
        self._samples = [
            _Sample(table.device, table.widths, pieces.count, rows)
            for table, rows in zip(pieces.records.tables.values(), pieces.rows, strict=True)
        ]
        shapes: list[tuple[int, ...]] = []
        for layer in plan.layers:
            shapes.append((layer.out_features, layer.in_features))
            shapes += [(layer.out_features,)] * layer.has_bias
        self._sums = [SumVariable(ring.servers.devices, shape) for shape in shapes]
        self._begin = Program(self._begun)
        self._add = Program(self._added)
        self._end = Program(self._ended)

    def __call__(self) -> None:
        """Makes a step."""
        self._begin()
        for _ in range(self._pieces.count):
            self._add()
        self._end()

    @property
    def cost(self) -> Cost:
        """What a step costs, read from the graphs."""
        return self._begin.cost.then(self._add.cost, self._pieces.count).then(self._end.cost)

    @property
    def memory(self) -> int:
        """Bytes that a server's process takes for it, as `Cost` says."""
        return max(each.memory for each in (self._begin, self._add, self._end))

    def _begun(self) -> None:
        for sample, drawn in zip(self._samples, self._draw(), strict=True):
            sample.take(drawn)
        for total in self._sums:
            total.clear()

    def _added(self) -> None:
        batch = self._pieces.records.shared([sample.next() for sample in self._samples])
        for total, part in zip(self._sums, parts_of(self._clipped(batch)), strict=True):
            total.add(part)

    def _ended(self) -> None:
        self._finish(paired([total.read() for total in self._sums], self._plan))


class _Sample:
    """One owner's sample, in variables on its own device.

    Args:
        device: the owner's.
        widths: number of features and of classes.
        count: number of pieces.
        rows: of a piece.
    """

    def __init__(self, device: str, widths: tuple[int, int], count: int, rows: int) -> None:
        self._device, self._rows, self._all = device, rows, count * rows
        shapes: list[list[int]] = [[self._all, width] for width in widths]
        shapes += [[self._all], [self._all]]
        with tf.device(device):
            self._columns = [self._variable(tf.zeros(shape, tf.int64)) for shape in shapes]
            self._due = self._variable(tf.zeros([], tf.int64))

    @staticmethod
    def _variable(value: Any) -> tf.Variable:
        return tf.Variable(value, trainable=False, name="sample")

    def take(self, drawn: Sequence[tf.Tensor]) -> None:
        """Features, labels, squared norms and padding take the place of those before."""
        with tf.device(self._device):
            for column, part in zip(self._columns, padded(drawn, self._all), strict=True):
                column.assign(part)
            self._due.assign(tf.zeros([], tf.int64))

    def next(self) -> list[tf.Tensor]:
        """Returns the next piece of them."""
        with tf.device(self._device):
            first = self._due.read_value() * self._rows
            found = [rows_from(each.read_value(), first, self._rows) for each in self._columns]
            self._due.assign_add(tf.ones([], tf.int64))
            return found
