"""Batches of a script whose parties have other columns of the same records."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from crypten_ext.nn.batches import check_settings, marked
from crypten_ext.ring.crypten_ring import CrypTenRing, as_tensor
from crypten_ext.ring.factors import share_rows
from crypten_ext.ring.standing import Standing
from crypten_ext.world import exchange
from extensions.data.datasets import no_labels
from extensions.errors import ArgumentError
from extensions.privacy.sampling import OwnRecords, as_reals, check_records
from extensions.protocols.agreement import comparable
from extensions.protocols.host import Batch
from extensions.protocols.optimizer.sample import Sample, SampleFacts
from extensions.protocols.records import Records

import crypten
from crypten.mpc import MPCTensor


def column_batches(
    x: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    *,
    steps: int,
    classes: int | None = None,
    max_feature_norm: float = 1.0,
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    """Yields all records in each step, if parties have other columns of the same records.

    Call it at every party with its own columns in the same order, and at one with the labels:

        for features, targets in crypten_ext.column_batches(x, y, steps=10):
            ...

    The optimizer has a ``sample_rate`` of 1, and ``get_epsilon(delta, neighbours="replace")`` is
    towards the other parties, who know which records there are.

    Args:
        x: this party's columns, (records, columns), scaled here by 1 / sqrt(parties).
        y: labels, as in `crypten_ext.poisson_batches`; None at all parties but one.
        steps: number of batches.
        classes: number of outputs; by default what the labels need, which tells the others.
        max_feature_norm: public bound of the Euclidean norm of a row of x, at each party.

    Yields:
        features, (records, columns of all parties in rank order), and targets, (records, classes),
        to be passed on unchanged.

    Cost:
        One round before the first batch; each party sends its columns to every other one, masked,
        in the first step, and 0 bytes of them in the others.

    Raises:
        ArgumentError: in every party and before anything is shared: other numbers of records,
            missing or repeated labels, or what `crypten_ext.poisson_batches` refuses.

    Examples:
        >>> labels = y if crypten.communicator.get().get_rank() == 0 else None
        >>> for xb, yb in crypten_ext.column_batches(x, labels, steps=1):
        ...     print(xb.size(), yb.size())
        torch.Size([40, 8]) torch.Size([40, 3])
    """
    ring = CrypTenRing(int(crypten.cfg.encoder.precision_bits))
    records = _agreed(ring, x, y, steps, classes, max_feature_norm)
    public = SampleFacts(
        feature_norm=float(max_feature_norm),
        expected_size=float(records.sizes[0]),
        sample_rate=1.0,
        overflow_probability=0.0,
    )
    return _batches(ring, records, public, steps)


def _batches(
    ring: CrypTenRing, records: Records, public: SampleFacts, steps: int
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    (own,), (rows,) = records.own, records.sizes
    squares = np.einsum("ij,ij->i", own.features, own.features)
    (norms,) = share_rows([1] * ring.parties, [squares[None]])
    (targets,) = share_rows(records.outputs, [own.labels.T])
    x = Standing(own.features, records.widths, by_columns=True)
    y, padding = targets.T.contiguous(), torch.zeros(rows, dtype=torch.int64)
    shared, share = Batch(x, y, norms.sum(0), padding), x.share
    for _ in range(steps):
        batch = Sample(public, rows, shared)
        yield marked(batch, as_tensor(ring, share.clone()), as_tensor(ring, y.clone()))


def _agreed(
    ring: CrypTenRing,
    x: npt.ArrayLike,
    y: npt.ArrayLike | None,
    steps: int,
    classes: int | None,
    max_feature_norm: float,
) -> Records:
    """This party's records, encoded, with the sizes of all parties'; one round."""
    own, problem = OwnRecords.none(0, 0, ring.frac_bits), None
    settings = {"steps": steps, "classes": classes, "max_feature_norm": max_feature_norm}
    try:
        check_settings(settings)
        scale = ring.parties**-0.5
        features, outputs = as_reals("x", x) * scale, 0
        labels = no_labels(len(features)) if y is None else as_reals("y", y)
        if y is not None:
            outputs = classes or (labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1)
        own = check_records(
            features,
            labels,
            frac_bits=ring.frac_bits,
            classes=outputs,
            max_feature_norm=max_feature_norm * scale,
        )
    except ArgumentError as error:
        problem = error
    statement = comparable({**settings, "frac_bits": ring.frac_bits})
    return Records.agreed(exchange, [own], statement, problem, split="columns")
