"""Which records a model was trained on, so that a count on them is not taken for one on others."""

import secrets

import numpy as np
import tensorflow as tf

from tfe_ext.keras.records.batches import Records, SharedRecords
from tfe_ext.keras.records.tables import RecordTable
from tfe_ext.ring.shares import Replicated


class Seen:
    """The records of all calls of `fit`: a hash of each, on the device of its owner alone.

    Limits:
        Records are the same if all features and labels are; private tensors, if the targets are.
        What other models were trained on, or this one before its weights were loaded, is not known.
    """

    def __init__(self) -> None:
        self._hashes: dict[str, tf.Tensor] = {}
        self._shared: list[Replicated] = []
        self._multipliers = np.zeros(0, dtype=np.int64)

    def add(self, records: Records) -> None:
        """Takes the records as seen."""
        if isinstance(records, SharedRecords):
            self._shared.append(records.targets)
            return
        for name, table in records.tables.items():
            if not self._holds(name, table):
                with tf.device(table.device):
                    known = self._hashes.get(name, tf.zeros([0], tf.int64))
                    self._hashes[name] = tf.sort(tf.concat([known, self._hash(table)], 0))

    def owners(self, records: Records) -> list[str]:
        """Returns who gives only records that were seen; of private tensors, "y" if they were.

        To the script each owner tells yes or no.
        """
        if isinstance(records, SharedRecords):
            return ["y"] if any(_are_one(records.targets, each) for each in self._shared) else []
        return [name for name, table in records.tables.items() if self._holds(name, table)]

    def _holds(self, name: str, table: RecordTable) -> bool:
        known = self._hashes.get(name)
        if known is None:
            return False
        with tf.device(table.device):
            own = self._hash(table)
            places = tf.minimum(tf.searchsorted(known, own), known.shape[0] - 1)
            return bool(tf.reduce_all(tf.gather(known, places) == own))

    def _hash(self, table: RecordTable) -> tf.Tensor:
        """Returns a sum modulo 2^64 for each record, which equal records have in common."""
        x, y, _ = table.everything()
        width = x.shape[1] + y.shape[1]
        if len(self._multipliers) != width:
            self._multipliers = np.frombuffer(secrets.token_bytes(8 * width), np.int64)
        at = x.shape[1]
        with tf.device(table.device):
            multipliers = tf.constant(self._multipliers)
            return tf.linalg.matvec(x, multipliers[:at]) + tf.linalg.matvec(y, multipliers[at:])


def _are_one(x: Replicated, y: Replicated) -> bool:
    """Whether both are of one private tensor."""
    return all(a is b for a, b in zip(x.parts, y.parts, strict=True))
