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
from tfe_ext.ring.variables import SumVariable


@dataclass(frozen=True)
class Sampling:
    """Which rows a step has, and in how many pieces they are computed; public.

    Attributes:
        records: of which they are.
        rows: of each owner.
        rate: with which each record is drawn.
        source: of what is drawn.
        pieces: each has some rows of every owner; what its sample lacks are rows of padding.
    """

    records: Records
    rows: list[int]
    rate: float
    source: NoiseSource
    pieces: int = 1

    @classmethod
    def of(
        cls,
        records: Records,
        rows: list[int],
        rate: float,
        source: NoiseSource,
        most: int | None,
    ) -> Self:
        """Returns the sampling of a step in pieces of about `most` rows; None: in one."""
        if most is not None:
            Whole(1).check("physical_rows", most)
            if not isinstance(records, OwnersRecords):
                allowed = "None for records that are shared already, as one batch"
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
        servers: Sequence[str],
        plan: StepPlan,
        clipped: Callable[[Batch], Sums],
        finish: Callable[[Sums], None],
    ) -> "Program | InPieces":
        """Returns what makes steps: one graph, or those of `InPieces`.

        `clipped` returns the sums of some rows, and `finish` makes a step by the sums of all.
        """
        if self.pieces > 1:
            return InPieces(self, servers, plan, clipped, finish)
        drawn = self.rows, self.rate, self.source
        return Program(lambda: finish(clipped(self.records.sample(*drawn))))


class InPieces:
    """Makes steps by three graphs: owners draw, a piece is added up, and a step is made.

    Guarantees:
        Owners draw one sample, and keep it in the clear on their own devices until the next step.
        So do servers with their summands of the sums, each computed from what it has of shares. The
        sums have noise, which is drawn once, before anything is made of them.

    Cost:
        Each piece takes the rounds of both passes, and those of the clipped sums.
    """

    def __init__(
        self,
        sampling: Sampling,
        servers: Sequence[str],
        plan: StepPlan,
        clipped: Callable[[Batch], Sums],
        finish: Callable[[Sums], None],
    ) -> None:
        assert isinstance(sampling.records, OwnersRecords)
        self._sampling, self._records = sampling, sampling.records
        self._plan, self._clipped, self._finish = plan, clipped, finish
        tables = self._records.tables.values()
        self._samples = [
            _Sample(table.device, table.widths, sampling.pieces, rows)
            for table, rows in zip(tables, sampling.rows_of_piece, strict=True)
        ]
        shapes: list[tuple[int, ...]] = []
        for layer in plan.layers:
            shapes.append((layer.out_features, layer.in_features))
            shapes += [(layer.out_features,)] * layer.has_bias
        self._sums = [SumVariable(servers, shape) for shape in shapes]
        self._begin = Program(self._begun)
        self._add = Program(self._added)
        self._end = Program(self._ended)

    def __call__(self) -> None:
        """Makes a step."""
        self._begin()
        for _ in range(self._sampling.pieces):
            self._add()
        self._end()

    @property
    def cost(self) -> Cost:
        """What a step costs, read from the graphs."""
        return self._begin.cost.then(self._add.cost, self._sampling.pieces).then(self._end.cost)

    @property
    def memory(self) -> int:
        """Bytes that a server's process takes for it, as `Cost` says."""
        return max(each.memory for each in (self._begin, self._add, self._end))

    def _begun(self) -> None:
        of = self._sampling
        drawn = self._records.draw(of.rows, of.rate, of.source)
        for sample, own in zip(self._samples, drawn, strict=True):
            sample.take(own)
        for total in self._sums:
            total.clear()

    def _added(self) -> None:
        batch = self._records.shared([sample.next() for sample in self._samples])
        for total, part in zip(self._sums, parts_of(self._clipped(batch)), strict=True):
            total.add(part)

    def _ended(self) -> None:
        self._finish(paired([total.read() for total in self._sums], self._plan))


class _Sample:
    """One owner's sample, in variables on its own device: so many pieces of so many rows."""

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
