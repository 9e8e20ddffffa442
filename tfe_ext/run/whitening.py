"""Whitened features in a session of ABY3."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.protocols.noisy_sums import whitening as sums
from extensions.protocols.noisy_sums.whitening import Whitening
from extensions.ring.interface import NoiseSource
from tfe_ext.aby3.protocol import current_protocol
from tfe_ext.run.host import ABY3Host


def whiten(
    x: Mapping[str, npt.ArrayLike],
    *,
    ledger: Ledger,
    noise_multiplier: float,
    max_feature_norm: float = 1.0,
    ridge: float | None = None,
    source: NoiseSource | None = None,
) -> Whitening:
    """Returns a map that whitens features, from a noisy sum of x x^T over all owners.

    Call it before training, and train on the whitened rows:

        whitening = tfe_ext.whiten(x, ledger=optimizer.ledger, noise_multiplier=5.0)
        x = {owner: whitening.rows(own) for owner, own in x.items()}

    The script sums the records and draws the noise that three servers would, so the servers
    exchange 0 bytes. It needs all records in the script; data sets at their owners are out of its
    reach.

    Args:
        x: features by the owner's name, (records, columns), at most 4,096 columns, each row a
            function of its own record alone.
        ledger: that of the optimizer, in which it counts.
        noise_multiplier: of the noise that remains after one server subtracts its own.
        max_feature_norm: public bound of the Euclidean norm of a row.
        ridge: added to the sum's eigenvalues; by default what suits the noise.
        source: of the noise; by default the operating system.

    Guarantees:
        Those of `extensions.protocols.noisy_sums.whitening.whiten`. Nothing is opened if an
        argument is refused.

    Examples:
        >>> optimizer = tfe_ext.keras.DPSGD(1.0, 1.0, 2.0, sample_rate=0.5)
        >>> x = {"server0": np.full((20, 3), 0.5), "server1": np.full((20, 3), 0.25)}
        >>> whitening = tfe_ext.whiten(x, ledger=optimizer.ledger, noise_multiplier=5.0)
        >>> whitening.rows(x["server0"]).shape
        (20, 3)
    """
    host = ABY3Host(current_protocol(), source or SystemSource())
    if not isinstance(x, Mapping) or not x:
        allowed = "features by the owner's name, of one at least"
        raise ArgumentError("x", type(x).__name__, allowed, code="type")
    tables = {owner: np.asarray(own) for owner, own in x.items()}
    shapes = {owner: own.shape for owner, own in tables.items()}
    if {len(shape) for shape in shapes.values()} != {2} or len({s[1] for s in shapes.values()}) > 1:
        allowed = "(records, columns) of one width at every owner"
        raise ArgumentError("x", shapes, allowed, code="shape")
    rest = [None for _ in host.ranks[1:]]
    return sums.whiten(
        host,
        [np.concatenate([*tables.values()]), *rest],
        ledger,
        noise_multiplier=noise_multiplier,
        max_feature_norm=max_feature_norm,
        ridge=ridge,
    )
