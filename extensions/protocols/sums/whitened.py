"""Protocol 5 on whitened features: what a run says of it, what it costs, and its records."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import OwnRecords, encode_features
from extensions.protocols.announcement import Announced
from extensions.protocols.host import Host
from extensions.protocols.pea import Keep, Own
from extensions.protocols.settings import Training
from extensions.protocols.sums.gram import blocks, unit_rows
from extensions.protocols.sums.whitening import WHITENING, Whitening, noisy_gram, ridge_of
from extensions.ring.fixed_point import decode

TITLE = "the sum of x x^T over the features x of training records, with noise"


def account_for_whitening(ledger: Ledger, config: Training) -> None:
    """Records what whitening costs a record, and that it is opened; nothing without."""
    if config.whiten and config.private:
        charge(ledger, config.noise_multiplier_whiten or 0.0)


def charge(ledger: Ledger, noise_multiplier: float) -> None:
    """Records what an opened sum of x x^T costs a record, and that it is opened.

    Args:
        ledger: of the records.
        noise_multiplier: of what it was opened with.
    """
    ledger.record(WHITENING, noise_multiplier=noise_multiplier, sample_rate=1.0, steps=1)
    ledger.disclose(TITLE)


def whitened(
    host: Host, config: Training, own: Own, records: Announced, keep: Keep
) -> tuple[Own, Announced, Whitening | None]:
    """Returns the owners' records with whitened features, and the map; without it as they are.

    To be called once it is clear what the run goes on from: what it opened before is opened again.

    Args:
        host: whose parties own the records.
        config: equal at all parties.
        own: of this program's owners.
        records: on which all parties have agreed.
        keep: follows the run.

    Guarantees:
        The rows of a person's records move the sum by rows_per_unit at most, against which the
        noise is sized; rows that hold no record are zeros, and stay so. Held-out records are no
        part of it; they are mapped as the others are.

    Cost:
        That of `extensions.protocols.sums.whitening.noisy_gram`.

    Raises:
        ArgumentError: in every party and before anything is opened: too many columns or records.
    """
    if not config.whiten:
        return own, records, None
    bound = config.max_feature_norm * 2.0**config.frac_bits
    sigma = (config.noise_multiplier_whiten or 0.0) if config.private else 0.0
    k, columns = config.rows_per_unit, records.features
    total = k * sum(records.sizes)
    rows = [unit_rows(each.features, bound) for each in records.records]
    parts = noisy_gram(
        host,
        keep,
        rows,
        sigma=sigma,
        total=total,
        rows_per_unit=k,
        split=config,
    )
    ridge = config.whiten_ridge or ridge_of(
        k * sigma,
        parties=host.ring.parties,
        total=total,
        columns=columns,
        split=config,
    )
    whitening = Whitening(parts=parts, ridge=ridge)
    train = mapped(whitening, records.records, config.max_feature_norm)
    held_out = mapped(whitening, own.held_out, config.max_feature_norm)
    own = replace(own, train=train, held_out=held_out)
    return own, replace(records, records=train), whitening


def mapped(whitening: Whitening, owners: Sequence[OwnRecords], norm: float) -> list[OwnRecords]:
    """Returns records with whitened features.

    Args:
        whitening: the map.
        owners: records of each.
        norm: of their rows, but for those of zeros.

    Raises:
        ArgumentError: a norm beyond the bound after encoding, which no row has.
    """
    found = []
    for own in owners:
        features = np.empty_like(own.features)
        for block in blocks(features.shape):
            rows = whitening.rows(decode(own.features[block], own.frac_bits), norm)
            features[block] = encode_features(rows, own.frac_bits, norm)
        found.append(replace(own, features=features))
    return found
