"""Protocol 5 on whitened features: what a run says of it, what it costs, and its records."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from extensions.checks import check_not_negative, check_positive
from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import OwnRecords, encode_features
from extensions.protocols.announcement import Announced
from extensions.protocols.host import Host
from extensions.protocols.pea import Keep, Own
from extensions.protocols.settings import Settings, split_of
from extensions.protocols.sums.gram import blocks, unit_rows
from extensions.protocols.sums.whitening import WHITENING, Whitening, noisy_gram, ridge_of
from extensions.ring.fixed_point import decode

TITLE = "the sum of x x^T over the features x of training records, with noise"
SHARE = 0.15
"""Of the budget, 1 / sigma^2, that whitening takes."""


class WhitenedSettings(Settings, Protocol):
    """What all parties of a run have in common, with its whitening."""

    @property
    def whiten(self) -> bool:
        """Whether features are whitened."""

    @property
    def whiten_share(self) -> float | None:
        """Part of the budget, 1 / sigma^2, that whitening takes; None: `SHARE`."""

    @property
    def whiten_ridge(self) -> float | None:
        """The ridge; None: that of the noise."""

    @property
    def noise_multiplier_whiten(self) -> float | None:
        """Standard deviation of its noise over how far a record, or person, moves the sum."""

    @property
    def epsilon(self) -> float | None:
        """Target of the whole run."""

    @property
    def settled(self) -> bool:
        """Whether noise was found for the target."""


def check_whitening(config: WhitenedSettings) -> None:
    """Returns only if a run says all that its whitening needs, and no more.

    Raises:
        ArgumentError: it does not.
    """
    share, ridge, noise = config.whiten_share, config.whiten_ridge, config.noise_multiplier_whiten
    given = {"whiten_share": share, "whiten_ridge": ridge, "noise_multiplier_whiten": noise}
    if not config.whiten:
        for name, value in given.items():
            if value is not None:
                raise ArgumentError(name, value, "left out without whiten", "Type: --whiten.")
        return
    if share is not None and not 0.0 < share < 1.0:
        raise ArgumentError("whiten_share", share, f"in (0, 1); {SHARE} is usual")
    if ridge is not None:
        check_positive("whiten_ridge", ridge)
    if noise is not None:
        check_not_negative("noise_multiplier_whiten", noise)
    _check_noise(config)


def _check_noise(config: WhitenedSettings) -> None:
    """Returns only if noise is given exactly where it does not follow from epsilon."""
    share, noise = config.whiten_share, config.noise_multiplier_whiten
    if not config.private or config.epsilon is None:
        if share is not None:
            raise ArgumentError("whiten_share", share, "left out without epsilon")
        if config.private and noise is None:
            allowed = "given with noise_multiplier"
            advice = "Or give --epsilon, of which --whiten-share says a part."
            raise ArgumentError("noise_multiplier_whiten", noise, allowed, advice)
    if noise is not None and not config.settled and (config.epsilon or not config.private):
        allowed = "left out, but with noise_multiplier"
        raise ArgumentError("noise_multiplier_whiten", noise, allowed, "It follows from epsilon.")
    if config.whiten_ridge is None and (not config.private or noise == 0.0):
        advice = "It follows from the noise where there is some."
        raise ArgumentError("whiten_ridge", None, "given without noise", advice)


def account_for_whitening(ledger: Ledger, config: WhitenedSettings) -> None:
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
    host: Host, config: WhitenedSettings, own: Own, records: Announced, keep: Keep
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
        split=split_of(config),
    )
    ridge = config.whiten_ridge or ridge_of(
        k * sigma,
        parties=host.ring.parties,
        total=total,
        columns=columns,
        split=split_of(config),
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
