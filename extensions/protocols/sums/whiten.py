"""Whitening for a script: one call checks records, opens the sum and charges it, on any host."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import OwnRecords, check_records
from extensions.protocols.agreement import comparable
from extensions.protocols.announcement import Announced, announce
from extensions.protocols.host import Host
from extensions.protocols.noise import EVEN, NoiseSplit
from extensions.protocols.pea import Keep
from extensions.protocols.sums.gram import check_size, unit_rows
from extensions.protocols.sums.whitened import charge
from extensions.protocols.sums.whitening import Whitening, noisy_gram, ridge_of
from extensions.rules import NOT_NEGATIVE, POSITIVE


def whiten(
    host: Host,
    own: Sequence[npt.ArrayLike | None],
    ledger: Ledger,
    *,
    noise_multiplier: float,
    max_feature_norm: float = 1.0,
    ridge: float | None = None,
    split: NoiseSplit = EVEN,
) -> Whitening:
    """Returns the map that whitens features, of the sum of x x^T over all owners' records.

    ``whitening.rows(x)`` are an owner's features from then on, of norm 1 but for zeros; new records
    are mapped alike.

    Args:
        host: whose parties are the owners.
        own: features of each of the host's ranks, (records, columns), each row a function of its
            own record alone; None of a rank that has none.
        ledger: of the training, in which this counts.
        noise_multiplier: standard deviation of the noise that remains after colluding parties
            subtract theirs, over how far a record moves the sum.
        max_feature_norm: public bound of the Euclidean norm of a row.
        ridge: what is added to the sum's eigenvalues; None: what suits the noise.
        split: how the parties divide the noise.

    Guarantees:
        Those of `extensions.protocols.sums.whitening.noisy_gram`. Called again it opens another
        sum, which is charged too; each row of the result is a function of one record and of what
        was opened.

    Cost:
        One round to agree on settings and sizes, and that of `noisy_gram`; one more where masks
        need keys first.

    Raises:
        ArgumentError: in every party and before anything is opened: records or settings that do
            not fit, or no ridge without noise.
    """
    stated = {"noise_multiplier": noise_multiplier, "ridge": ridge, **vars(split)}
    records = _agreed(host, own, max_feature_norm, stated)
    total, columns = sum(records.sizes), records.features
    check_size(total, columns)
    if ridge is None:
        parties = host.ring.parties
        ridge = ridge_of(
            noise_multiplier, parties=parties, total=total, columns=columns, split=split
        )
    bound = math.ldexp(max_feature_norm, host.ring.frac_bits)
    rows = [unit_rows(each.features.reshape(-1, columns), bound) for each in records.records]
    charge(ledger, noise_multiplier)
    parts = noisy_gram(host, Keep(host), rows, sigma=noise_multiplier, total=total, split=split)
    return Whitening(parts=parts, ridge=ridge)


def _agreed(
    host: Host,
    own: Sequence[npt.ArrayLike | None],
    max_feature_norm: float,
    stated: Mapping[str, Any],
) -> Announced:
    """Returns the owners' records, of whose sizes and settings all parties know; one round."""
    f = host.ring.frac_bits
    stated = {**stated, "max_feature_norm": max_feature_norm, "frac_bits": f}
    none = np.zeros((0, 0), dtype=np.int64)
    records, problem = [OwnRecords(features=none, labels=none, frac_bits=f) for _ in own], None
    try:
        NOT_NEGATIVE.check("noise_multiplier", stated["noise_multiplier"])
        POSITIVE.check("max_feature_norm", max_feature_norm)
        if stated["ridge"] is not None:
            POSITIVE.check("ridge", stated["ridge"])
        for rank, x in enumerate(own):
            if x is not None:
                records[rank] = _checked(x, f, max_feature_norm)
    except ArgumentError as error:
        problem = error
    announced = announce(host.exchange, records, comparable(stated), problem)
    if not sum(announced.sizes):
        raise ArgumentError("x", None, "by at least one party", code="missing")
    return announced


def _checked(x: npt.ArrayLike, frac_bits: int, max_feature_norm: float) -> OwnRecords:
    try:
        rows = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        allowed = "rows of numbers"
        raise ArgumentError("x", type(x).__name__, allowed, str(error), code="type") from error
    return check_records(
        rows,
        np.zeros(rows.shape[:1]),
        frac_bits=frac_bits,
        classes=1,
        max_feature_norm=max_feature_norm,
    )
