"""Records of a training: private tensors for which the caller vouches, and what has been seen."""

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.protocols.optimizer.sample import Half, vouched
from tfe_ext.aby3.protocol import current_protocol
from tfe_ext.graphs.batches import Records, SharedRecords
from tfe_ext.graphs.tables import RecordTable
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.shares import Replicated

Marks = Mapping[str, tf.Tensor | Replicated]
"""What tells records from others: by the owner's name a hash of each, in order of size, on the
owner's device; of private tensors "y", the targets."""


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
            return {"y": records.targets}
        return {name: self._hash(table) for name, table in records.tables.items()}

    def add(self, records: Records) -> None:
        """Takes the records as seen."""
        for name, own in self.marks(records).items():
            if isinstance(own, Replicated):
                self._shared.append(own)
            elif not self._holds(name, own):
                with tf.device(own.device):
                    known = self._hashes.get(name, tf.zeros([0], tf.int64))
                    self._hashes[name] = tf.sort(tf.concat([known, own], 0))

    def owners(self, marks: Marks) -> list[str]:
        """Returns who gives only records that were seen; of private tensors, "y" if they were.

        To the script each owner tells yes or no.
        """
        return [name for name, own in marks.items() if self._holds(name, own)]

    def _holds(self, name: str, own: tf.Tensor | Replicated) -> bool:
        if isinstance(own, Replicated):
            return any(_are_one(own, each) for each in self._shared)
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
            if known.keys() == marks.keys() and all(_are_one(known[n], marks[n]) for n in known):
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


def _are_one(x: tf.Tensor | Replicated, y: tf.Tensor | Replicated) -> bool:
    """Whether both are of one private tensor, or of equal records, as their owner tells."""
    if isinstance(x, Replicated) or isinstance(y, Replicated):
        same = isinstance(x, Replicated) and isinstance(y, Replicated)
        return same and all(a is b for a, b in zip(x.parts, y.parts, strict=True))
    with tf.device(x.device):
        return x.shape == y.shape and bool(tf.reduce_all(x == y))


def vouch_for(x: Any, y: Any, *, max_feature_norm: float) -> tuple[Half, Half]:
    """Declares private tensors to be records for `Sequential.fit`; nothing is sent.

    PEA checks records that owners give in the clear. Here you declare the following instead. The
    epsilon that an optimizer reports is right only if all of this is true:

    - Row j of x and of y is one record, and depends on no other.
    - These are all the records; an optimizer takes them only with ``sample_rate=1.0``.
    - Each row of x has at most the norm `max_feature_norm`, and y is in [0, 1].

    Later changes of a private variable are ignored.

    Args:
        x: features, (records, ...); the further axes are flattened.
        y: targets, (records, classes).
        max_feature_norm: bound of the Euclidean norm of a record's features.

    Examples:
        >>> features = tfe.define_private_variable(np.full((6, 4), 0.5))
        >>> targets = tfe.define_private_variable(np.tile(np.eye(3), (2, 1)))
        >>> given = tfe_ext.keras.vouch_for(features, targets, max_feature_norm=1.0)
        >>> len(given)
        2
    """
    ring = current_protocol().ring
    shares = features, targets = share_of(ring, x, "x"), share_of(ring, y, "y")
    shape = features.shape if len(features.shape) != 1 else (*features.shape, 1)
    records = vouched(shape, targets.shape, max_feature_norm, shared=shares)
    return Half(records, "features"), Half(records, "targets")


def records_of(x: Any, y: Any, max_feature_norm: float) -> tuple[Replicated, Replicated]:
    """Returns the shares of the two halves that one call of `vouch_for` returned."""
    if not (isinstance(x, Half) and isinstance(y, Half) and x.fits(y)):
        given = (str(each) if isinstance(each, Half) else type(each).__name__ for each in (x, y))
        raise ArgumentError(
            "x, y",
            ", ".join(given),
            "a dictionary of each owner's records, or both tensors of one call of vouch_for",
            "An operation on encrypted records may mix or scale them. For private tensors, declare "
            "what PEA cannot check: tfe_ext.keras.vouch_for(x, y, max_feature_norm=...).",
            code="type",
        )
    bound = x.batch.public.feature_norm
    if bound > max_feature_norm:
        raise ArgumentError(
            "max_feature_norm",
            max_feature_norm,
            f"at least {bound:g}, which was vouched for",
            "Give the optimizer the same bound.",
            code="range",
        )
    shares: tuple[Replicated, Replicated] = x.batch.shared
    return shares
