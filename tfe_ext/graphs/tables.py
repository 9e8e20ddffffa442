"""One owner's records on its own device, and the Poisson sample that it draws there each step."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.privacy.gaussian_table import WORD_BITS
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import OwnRecords
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from tfe_ext.streams.devices import in_this_process
from tfe_ext.streams.gaussian import uniform_words
from tfe_ext.streams.randomness import Stream


class RecordTable:
    """Checked and encoded records as variables on the device of their owner, and on no other."""

    def __init__(self, device: str, records: OwnRecords) -> None:
        self.device = device
        self._columns: list[tf.Variable] = []
        self._empty: tf.Variable | None = None
        self._per_unit = records.rows_per_unit
        with tf.init_scope(), tf.device(device):
            for column in _columns(records):
                self._columns.append(tf.Variable(column, trainable=False, name="records"))
            if records.empty is not None:
                self._empty = tf.Variable(records.empty, trainable=False, name="records")

    def __len__(self) -> int:
        """Number of persons: of what is drawn together."""
        return self.size // self._per_unit

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self._columns[0].shape[0])

    @property
    def widths(self) -> tuple[int, int]:
        """Number of features and of classes."""
        return int(self._columns[0].shape[1]), int(self._columns[1].shape[1])

    def replace(self, records: OwnRecords) -> None:
        """Puts other records of the same shapes in their place, in traced functions too."""
        with tf.device(self.device):
            for column, values in zip(self._columns, _columns(records), strict=True):
                column.assign(values)

    def everything(self) -> list[tf.Tensor]:
        """Returns all features, labels and squared norms, in the owner's order."""
        with tf.device(self.device):
            return [column.read_value() for column in self._columns]

    @property
    def has_empty(self) -> bool:
        """Whether some rows may hold no record."""
        return self._empty is not None

    def part(
        self, index: tf.Tensor, start: int, size: int, rows: int | None = None
    ) -> list[tf.Tensor]:
        """Returns what `everything` does of the records from start + index * size on, so many.

        With `rows` they are padded to that number, and 1 in rows that are padding goes with them.
        """
        columns = self.everything()
        with tf.device(self.device):
            if rows is not None:
                nothing = tf.zeros([self.size], tf.int64)
                is_padding = nothing if self._empty is None else self._empty.read_value()
                columns = padded([*columns, is_padding], rows)
            first = start + index * size
            return [rows_from(column, first, size) for column in columns]

    def draw(
        self, stream: Stream, *, party: int, sample_rate: float, rows: int, source: NoiseSource
    ) -> list[tf.Tensor]:
        """Returns a fresh Poisson sample whenever the graph runs, padded to a public size.

        It has features, labels, squared norms, and 1 in rows that are padding; zero elsewhere in
        these. A person is drawn with all of its k rows (`OwnRecords.rows_per_unit`), a record alone
        where each is another's. Each gets a uniform word u of 63 bits and is chosen if u < floor(q
        2^63), so that the rate is q or less by 2^-63 at most. The smallest words decide who enters,
        so that the sample is in random order and, should it not fit, a random choice of it stays.

        The stream is one that the owner alone holds; `SystemSource` stands for it. Any other source
        is asked in this process, with the owner's number as the party.
        """
        with tf.device(self.device):
            if type(source) is SystemSource:
                words = uniform_words(stream, self.device, [len(self)])
                threshold = math.floor(sample_rate * 2**WORD_BITS)
            else:
                words = _ask(source, party, sample_rate, len(self), self.device)
                threshold = 1
            most = min(rows // self._per_unit, len(self))
            smallest, units = tf.math.top_k(-words, k=most)
            # No word reaches 2^63, which no integer here holds: at a rate of 1 all are chosen.
            last = np.int64(min(threshold - 1, 2**WORD_BITS - 1))
            real = tf.repeat(tf.cast(-smallest <= last, tf.int64), self._per_unit)
            places = units[:, None] * self._per_unit + tf.range(self._per_unit, dtype=units.dtype)
            places = tf.reshape(places, [most * self._per_unit])
            if self._empty is not None:
                real *= 1 - tf.gather(self._empty.read_value(), places)
            drawn = []
            for column in self._columns:
                chosen = tf.gather(column.read_value(), places)
                drawn.append(chosen * tf.reshape(real, [-1] + [1] * (chosen.shape.rank - 1)))
            return padded([*drawn, 1 - real], rows)


def rows_from(column: tf.Tensor, first: tf.Tensor, count: int) -> tf.Tensor:
    """Returns so many rows from a place on that is known when the graph runs."""
    rest = column.shape.as_list()[1:]
    begin = tf.stack([first, *[tf.zeros([], tf.int64)] * len(rest)])
    return tf.slice(column, begin, [count, *rest])


def padded(drawn: Sequence[tf.Tensor], rows: int) -> list[tf.Tensor]:
    """Returns what `RecordTable.draw` gave, with rows of padding up to that number."""
    *values, is_padding = drawn
    lacking = rows - is_padding.shape[0]
    if lacking == 0:
        return list(drawn)
    more = [
        tf.pad(column, [[0, lacking]] + [[0, 0]] * (column.shape.rank - 1)) for column in values
    ]
    return [*more, tf.pad(is_padding, [[0, lacking]], constant_values=1)]


def _columns(records: OwnRecords) -> list[Any]:
    norms = tf.reduce_sum(records.features * records.features, axis=1)
    return [records.features, records.labels, norms]


def _ask(source: NoiseSource, party: int, sample_rate: float, size: int, device: str) -> tf.Tensor:
    """Returns 0 for the records that the source chooses, and 1 for the others."""

    def passed_over() -> Integers:
        return 1 - source.bernoulli(party, sample_rate, size).astype(np.int64)

    with tf.device(in_this_process(device)):
        drawn = tf.numpy_function(passed_over, [], tf.int64, stateful=True)
        return tf.ensure_shape(drawn, [size])
