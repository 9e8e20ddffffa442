"""Whitened features in a script of CrypTen's parties."""

import numpy.typing as npt

from crypten_ext.run.host import CrypTenHost
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.protocols.noise import NoiseShares, NoiseSplit
from extensions.protocols.noisy_sums import whitening as sums
from extensions.protocols.noisy_sums.whitening import Whitening
from extensions.ring.interface import NoiseSource

import crypten


def whiten(
    x: npt.ArrayLike | None,
    *,
    ledger: Ledger,
    noise_multiplier: float,
    max_feature_norm: float = 1.0,
    ridge: float | None = None,
    colluders: int = 1,
    noise_shares: NoiseShares = "exact",
    source: NoiseSource | None = None,
) -> Whitening:
    """Returns a map that whitens features, from a noisy sum of x x^T over all parties.

    Call it at every party with its own records, before the first batch:

        whitening = crypten_ext.whiten(x, ledger=optimizer.ledger, noise_multiplier=5.0)
        x = whitening.rows(x)

    Args:
        x: this party's features, (records, columns), at most 4,096 columns, each row a function of
            its own record alone; None if it has none.
        ledger: that of the optimizer, in which it counts.
        noise_multiplier: of the noise that remains after `colluders` parties subtract theirs.
        max_feature_norm: public bound of the Euclidean norm of a row.
        ridge: added to the sum's eigenvalues; by default what suits the noise.
        colluders: as in `crypten_ext.optim.DPSGD`.
        noise_shares: likewise.
        source: of the noise; by default each party's operating system.

    Guarantees:
        Those of `extensions.protocols.noisy_sums.whitening.whiten`.

    Cost:
        Three rounds, and 8 bytes of half a matrix of (columns, columns) to each other party.

    Raises:
        ArgumentError: in every party and before anything is opened: wrong records or
            settings.

    Examples:
        >>> model = crypten_ext.nn.Linear(4, 3).encrypt()
        >>> optimizer = crypten_ext.optim.DPSGD(model, 1.0, 1.0, 2.0, sample_rate=0.5)
        >>> whitening = crypten_ext.whiten(x, ledger=optimizer.ledger, noise_multiplier=5.0)
        >>> whitening.rows(x.numpy()).shape
        (40, 4)
        >>> round(optimizer.get_epsilon(1e-4), 1)
        0.6
    """
    host = CrypTenHost(int(crypten.cfg.encoder.precision_bits), source or SystemSource())
    return sums.whiten(
        host,
        [x],
        ledger,
        noise_multiplier=noise_multiplier,
        max_feature_norm=max_feature_norm,
        ridge=ridge,
        split=NoiseSplit(colluders=colluders, noise_shares=noise_shares),
    )


def whiten_columns(
    x: npt.ArrayLike,
    *,
    ledger: Ledger,
    noise_multiplier: float,
    max_feature_norm: float = 1.0,
    ridge: float | None = None,
    source: NoiseSource | None = None,
) -> Whitening:
    """Returns a map that whitens this party's columns, computed here from a noisy sum.

    Call it at every party with its own columns of the same records, before the first batch:

        whitening = crypten_ext.whiten_columns(x, ledger=optimizer.ledger, noise_multiplier=5.0)
        batches = crypten_ext.column_batches(whitening.rows(x), y, steps=10)

    Arguments are those of `whiten`; noise_multiplier is of all parties' maps together, which is
    what the ledger counts. Only this party sees the map.

    Guarantees:
        Those of `extensions.protocols.noisy_sums.whitening.own_whitening`.

    Raises:
        ArgumentError: wrong records or settings; at this party only.

    Examples:
        >>> model = crypten_ext.nn.Linear(8, 3).encrypt()
        >>> optimizer = crypten_ext.optim.DPSGD(model, 1.0, 1.0, 2.0, sample_rate=1.0)
        >>> whitening = crypten_ext.whiten_columns(x, ledger=optimizer.ledger, noise_multiplier=5.0)
        >>> whitening.rows(x.numpy()).shape
        (40, 4)
    """
    host = CrypTenHost(int(crypten.cfg.encoder.precision_bits), source or SystemSource())
    return sums.whiten_own(
        host,
        x,
        ledger,
        noise_multiplier=noise_multiplier,
        max_feature_norm=max_feature_norm,
        ridge=ridge,
    )
