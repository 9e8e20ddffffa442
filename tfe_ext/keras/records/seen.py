"""Which records a model was trained on, and which were counted, so that none counts as another."""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from extensions.privacy.accounting import Ledger
from tfe_ext.graphs.batches import Records, SharedRecords
from tfe_ext.graphs.tables import RecordTable
from tfe_ext.ring.shares import Replicated


@dataclass(frozen=True, eq=False)
class Marks:
    """What tells records from others.

    Attributes:
        hashes: one for each record, in order of size, by the owner's name, on the owner's device.
        targets: of private tensors.
    """

    hashes: Mapping[str, tf.Tensor] = field(default_factory=dict)
    targets: Replicated | None = None

    def are_of_the_same(self, other: "Marks") -> bool:
        """Whether both are of the same records of the same owners, who tell yes or no."""
        if self.targets is not None and other.targets is not None:
            return _are_one(self.targets, other.targets)
        if self.targets is not other.targets or self.hashes.keys() != other.hashes.keys():
            return False
        return all(_are_equal(own, other.hashes[name]) for name, own in self.hashes.items())


class Seen:
    """The records of all calls of `fit`: a hash of each, on the device of its owner alone.

    Limits:
        Records are the same if all features and labels are; private tensors, if the targets are.
        The same records under another owner's name, or in other private tensors, are not noticed,
        and neither is what other models were trained on, or this one before its weights were
        loaded.
    """

    def __init__(self) -> None:
        self._hashes: dict[str, tf.Tensor] = {}
        self._shared: list[Replicated] = []
        self._multipliers = np.zeros(0, dtype=np.int64)

    def marks(self, records: Records) -> Marks:
        """Returns what tells the records from others."""
        if isinstance(records, SharedRecords):
            return Marks(targets=records.targets)
        return Marks({name: self._hash(table) for name, table in records.tables.items()})

    def add(self, records: Records) -> None:
        """Takes the records as seen."""
        marks = self.marks(records)
        if marks.targets is not None:
            self._shared.append(marks.targets)
        for name, own in marks.hashes.items():
            if not self._holds(name, own):
                with tf.device(own.device):
                    known = self._hashes.get(name, tf.zeros([0], tf.int64))
                    self._hashes[name] = tf.sort(tf.concat([known, own], 0))

    def owners(self, marks: Marks) -> list[str]:
        """Returns who gives only records that were seen; of private tensors, "y" if they were.

        To the script each owner tells yes or no.
        """
        targets = marks.targets
        if targets is not None:
            return ["y"] if any(_are_one(targets, each) for each in self._shared) else []
        return [name for name, own in marks.hashes.items() if self._holds(name, own)]

    def _holds(self, name: str, own: tf.Tensor) -> bool:
        known = self._hashes.get(name)
        if known is None:
            return False
        with tf.device(own.device):
            places = tf.minimum(tf.searchsorted(known, own), known.shape[0] - 1)
            return bool(tf.reduce_all(tf.gather(known, places) == own))

    def _hash(self, table: RecordTable) -> tf.Tensor:
        """Returns a sum modulo 2^64 for each record, which equal records have in common, sorted."""
        x, y, _ = table.everything()
        width = x.shape[1] + y.shape[1]
        if len(self._multipliers) != width:
            self._multipliers = np.frombuffer(secrets.token_bytes(8 * width), np.int64)
        at = x.shape[1]
        with tf.device(table.device):
            multipliers = tf.constant(self._multipliers)
            hashes = tf.linalg.matvec(x, multipliers[:at]) + tf.linalg.matvec(y, multipliers[at:])
            return tf.sort(hashes)


class Counted:
    """What counts cost records on which the model was not trained, but may be afterwards."""

    def __init__(self) -> None:
        self._ledgers: list[tuple[Marks, Ledger]] = []

    def ledger(self, marks: Marks) -> Ledger:
        """Returns the account of counts of these records."""
        for known, ledger in self._ledgers:
            if known.are_of_the_same(marks):
                return ledger
        self._ledgers.append((marks, Ledger()))
        return self._ledgers[-1][1]

    def take(self, seen: Seen) -> Iterator[Ledger]:
        """Yields the accounts of records on which the model is trained now, each account once."""
        left = []
        for marks, ledger in self._ledgers:
            if seen.owners(marks):
                yield ledger
            else:
                left.append((marks, ledger))
        self._ledgers = left


def _are_equal(own: tf.Tensor, other: tf.Tensor) -> bool:
    """Whether two tensors of one owner are, which is computed on its device."""
    if own.shape != other.shape:
        return False
    with tf.device(own.device):
        return bool(tf.reduce_all(own == other))


def _are_one(x: Replicated, y: Replicated) -> bool:
    """Whether both are of one private tensor."""
    return all(a is b for a, b in zip(x.parts, y.parts, strict=True))
