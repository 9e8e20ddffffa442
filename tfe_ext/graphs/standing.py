"""All records of their owners in shares that are made once: the batch of every step at a rate of 1.

Features, targets, exact squared norms and, where there is any, padding lie in variables on the
servers. A step sends nothing of them.
"""

import functools
import math
from collections.abc import Iterable, Sequence

import tensorflow as tf

from extensions.protocols.host import Batch
from tfe_ext.costs.cost import Cost
from tfe_ext.graphs.batches import OwnersRecords
from tfe_ext.graphs.program import InBlocks, Turn, Turns
from tfe_ext.graphs.tables import rows_from
from tfe_ext.ring.shares import Replicated
from tfe_ext.ring.variables import present, without_value
from tfe_ext.ring.xor_words import Scalar

_PART = 16
"""Bytes of an element of a replicated share that a server holds."""
_AT_ONCE = 1 << 23
"""Words of features that are shared at a time: 64 MB, of which owner and servers have copies."""


class Standing:
    """Shares of all records, in pieces of equally many rows, each with some of every owner's.

    Args:
        rows: of each owner in a piece; those that its records lack are padding.

    Guarantees:
        They are shares of the records that the owners have now (`prepare`), masked anew whenever
        records are replaced, and in each process: a run that goes on shares once more. Nothing of
        them is opened, and each product with them is masked by fresh words.

    Cost:
        That of `tfe_ext.ring.inputs.share_from`, once, for each block that memory holds. A server
        keeps 16 bytes an element.
    """

    def __init__(self, records: OwnersRecords, rows: Sequence[int], pieces: int) -> None:
        self._records, self._on = records, records.servers.devices
        self.pieces, self._rows, self._number = pieces, sum(rows), -1
        tables = [*records.tables.values()]
        everything = [pieces * n for n in rows]
        is_padded = everything != records.sizes or any(table.has_empty for table in tables)
        self._all = everything if is_padded else None
        features, outputs = tables[0].widths
        widths: list[list[int]] = [[features], [outputs], [], *[[]] * is_padded]
        self._columns = [without_value(self._on, [sum(everything), *width]) for width in widths]
        self._turns = Turns(self._on)
        least = min(max(everything), -(-sum(everything) * features // _AT_ONCE))
        devices = [*self._on, *(table.device for table in tables)]
        blocks = pieces if pieces > 1 else least
        self._share = InBlocks(devices, everything, blocks, self._shared)

    def prepare(self) -> Cost | None:
        """Shares the owners' records unless that is done; returns what it cost, None if nothing."""
        if self._number == self._records.number:
            return None
        blocks = self._share()
        for i, column in enumerate(self._columns):
            for place, variable in zip(column.PLACES, column.parts, strict=True):
                # A part's blocks go as it is put together: memory holds one part twice.
                with tf.device(self._on[place]):
                    variable.assign(tf.concat([block[i].pop(0) for block in blocks], 0))
        self._number = self._records.number
        return self.cost

    @functools.cached_property
    def cost(self) -> Cost:
        """What it costs to share the records."""
        return self._share.cost

    @property
    def memory(self) -> int:
        """Bytes that a server keeps."""
        return sum(_PART * math.prod(column.shape) for column in self._columns)

    def begin(self) -> None:
        """Goes back to the first piece."""
        self._turns.clear()

    def next(self) -> Batch:
        """Returns the next piece."""
        rows = self._rows
        first = self._at(self._turns.take()) * rows
        return self._batch(
            column.beside(first, lambda own, at: rows_from(own.read_value(), at, rows))
            for column in self._columns
        )

    def everything(self) -> Batch:
        """Returns all rows."""
        return self._batch(map(present, self._columns))

    @staticmethod
    def _batch(columns: Iterable[Replicated]) -> Batch:
        x, y, norms, padding, *_ = [*columns, None]
        return Batch(x, y, norms, padding)

    def _shared(
        self, turn: Turn, starts: Sequence[int], sizes: Sequence[int]
    ) -> list[list[tf.Tensor]]:
        batch = self._records.part(turn, starts, sizes, self._all)
        return [[*share.parts] for share in batch if share is not None]

    def _at(self, turn: Turn) -> Scalar:
        return Scalar(self._on, [turn[server] for server in self._on])


def standing_on(records: OwnersRecords, rows: Sequence[int], pieces: int) -> Standing:
    """Returns the shares of all records in such pieces, which are kept until others are asked."""
    asked = tuple(rows), pieces
    found: Standing = records.kept.get(asked, lambda: Standing(records, rows, pieces))
    return found
