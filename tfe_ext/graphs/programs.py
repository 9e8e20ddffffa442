"""What is computed on the servers: by one graph, in pieces, or block by block; and what is kept."""

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.protocols.dpsgd import Sums, paired, parts_of
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.host import Batch, pieces_of
from extensions.ring.interface import NoiseSource
from extensions.rules import Whole
from tfe_ext.costs.cost import Cost, cost_of_graph, memory_of_graph
from tfe_ext.graphs.batches import OwnersRecords, Records
from tfe_ext.graphs.tables import padded, rows_from
from tfe_ext.ring.shares import Share
from tfe_ext.ring.variables import ScalarVariables, SumVariable


class Program:
    """A function without arguments as one graph, which is traced when it first runs."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._traced = tf.function(function, autograph=False)

    def __call__(self) -> Any:
        """Runs the graph."""
        return self._traced()

    def trace(self) -> None:
        """Traces the graph now."""
        self._traced.get_concrete_function()

    @property
    def graph(self) -> Any:
        """The graph."""
        return self._traced.get_concrete_function().graph

    @functools.cached_property
    def cost(self) -> Cost:
        """What a run costs, read from the graph."""
        return cost_of_graph(self.graph)

    @functools.cached_property
    def memory(self) -> int:
        """Bytes that a server's process takes for it, as `Cost` says."""
        return memory_of_graph(self.graph)


class Kept:
    """The most recently used values, by their keys.

    What a key names by `id` must be part of its value, so that no other object gets that number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Hashable, Any] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns the value of the key, made if there is none."""
        value = self._values.pop(key) if key in self._values else make()
        self._values[key] = value
        while len(self._values) > self._most:
            del self._values[next(iter(self._values))]
        return value


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

    Owners draw one sample, and keep it in the clear on their own devices until the next step. So do
    servers with their summands of the sums, each computed from what it has of shares. Noise of the
    sums is drawn once, before anything is made of them. Each piece takes the rounds of both passes,
    and those of the clipped sums.
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
